"""A stream like video over UDP: 25 pictures a second, each of several packets, played after 150 ms.

On the client, then on the server:

    python3 stream.py watch
    python3 stream.py play client 10
"""

import socket
import struct
import sys
import time

PORT = 5004
PICTURES_PER_S = 25
PACKETS = 8
PAYLOAD = bytes(1172)
DEADLINE_S = 0.150
HEAD = struct.Struct("!IHd")


def play(host: str, seconds: float) -> None:
    """Send pictures at their times: about 1.9 Mbps."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    start = time.monotonic()
    for picture in range(round(seconds * PICTURES_PER_S)):
        time.sleep(max(0.0, start + picture / PICTURES_PER_S - time.monotonic()))
        for number in range(PACKETS):
            sender.sendto(HEAD.pack(picture, number, time.monotonic()) + PAYLOAD, (host, PORT))
    time.sleep(0.5)


def watch() -> None:
    """Print, each second, the number of complete pictures in time; both ends share a clock."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("", PORT))
    in_time: dict[int, set[int]] = {}
    second = None
    while True:
        data = receiver.recv(2048)
        picture, number, sent = HEAD.unpack_from(data)
        if time.monotonic() - sent <= DEADLINE_S:
            in_time.setdefault(picture, set()).add(number)
        now = picture // PICTURES_PER_S
        if second is not None and now > second:
            mine = range(second * PICTURES_PER_S, (second + 1) * PICTURES_PER_S)
            whole = sum(len(in_time.pop(one, ())) == PACKETS for one in mine)
            print(
                f"second {second}: {whole} of {PICTURES_PER_S} pictures whole in time", flush=True
            )
        second = now if second is None else max(second, now)


if __name__ == "__main__":
    if sys.argv[1:2] == ["play"] and len(sys.argv) == 4:
        play(sys.argv[2], float(sys.argv[3]))
    elif sys.argv[1:] == ["watch"]:
        watch()
    else:
        sys.exit(__doc__)
