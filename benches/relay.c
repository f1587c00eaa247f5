/* A relay between two TUN devices: the least that a live link can cost.
 *
 * Usage: relay FROM TO DELAY_NS SPIN_NS
 *
 * Writes each packet that it reads from file FROM to file TO after DELAY_NS. In between it sleeps;
 * for the last SPIN_NS of a delay it polls. There is no protocol, loss, queue, rate or report.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 4096, LONGEST = 2048 };

struct packet {
    uint64_t due;
    ssize_t length;
    char bytes[LONGEST];
};

static struct packet packets[SLOTS];

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int from = atoi(arguments[1]), to = atoi(arguments[2]);
    uint64_t delay = strtoull(arguments[3], NULL, 10), spin = strtoull(arguments[4], NULL, 10);
    unsigned first = 0, end = 0;
    struct epoll_event event = {.events = EPOLLIN};
    int files = epoll_create1(EPOLL_CLOEXEC);
    prctl(PR_SET_TIMERSLACK, 1);
    epoll_ctl(files, EPOLL_CTL_ADD, from, &event);
    for (;;) {
        struct timespec nap, *limit = NULL;
        if (first != end) {
            uint64_t wake = packets[first % SLOTS].due - spin, at = now();
            uint64_t left = wake > at ? wake - at : 0;
            nap = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
            limit = &nap;
        }
        long ready = syscall(SYS_epoll_pwait2, files, &event, 1, limit, NULL, 8);
        uint64_t at = now();
        if (ready == 1 && end - first < SLOTS) {
            struct packet *last = &packets[end % SLOTS];
            last->length = read(from, last->bytes, LONGEST);
            last->due = at + delay;
            end += last->length > 0;
        }
        while (first != end && packets[first % SLOTS].due <= at) {
            struct packet *next = &packets[first++ % SLOTS];
            if (write(to, next->bytes, next->length) < 0) return 1;
        }
    }
}
