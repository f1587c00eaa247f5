//! Linux's numbers for names used in scripts, and errno values of errors.

use lasthop_tcp::host::SocketError;

/// Names for numbers, in calls and in conditions.
const NUMBERS: &[(&str, i64)] = &[
    ("SOL_SOCKET", 1),
    ("SOL_IP", 0),
    ("SOL_TCP", 6),
    ("IPPROTO_TCP", 6),
    ("IPPROTO_IP", 0),
    ("SOCK_STREAM", 1),
    ("SOCK_NONBLOCK", 0o4000),
    ("O_RDONLY", 0),
    ("O_WRONLY", 1),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 0o4000),
    ("F_GETFL", 3),
    ("F_SETFL", 4),
    ("SHUT_RD", 0),
    ("SHUT_WR", 1),
    ("SHUT_RDWR", 2),
    ("MSG_OOB", 0x1),
    ("MSG_PEEK", 0x2),
    ("MSG_TRUNC", 0x20),
    ("MSG_DONTWAIT", 0x40),
    ("MSG_EOR", 0x80),
    ("MSG_WAITALL", 0x100),
    ("MSG_ERRQUEUE", 0x2000),
    ("MSG_NOSIGNAL", 0x4000),
    ("MSG_MORE", 0x8000),
    ("MSG_ZEROCOPY", 0x0400_0000),
    ("MSG_FASTOPEN", 0x2000_0000),
    ("SO_EE_ORIGIN_NONE", 0),
    ("SO_EE_ORIGIN_TIMESTAMPING", 4),
    ("SO_EE_ORIGIN_ZEROCOPY", 5),
    ("SO_EE_CODE_ZEROCOPY_COPIED", 1),
    ("SOF_TIMESTAMPING_TX_HARDWARE", 0x1),
    ("SOF_TIMESTAMPING_TX_SOFTWARE", 0x2),
    ("SOF_TIMESTAMPING_RX_HARDWARE", 0x4),
    ("SOF_TIMESTAMPING_RX_SOFTWARE", 0x8),
    ("SOF_TIMESTAMPING_SOFTWARE", 0x10),
    ("SOF_TIMESTAMPING_OPT_ID", 0x80),
    ("SOF_TIMESTAMPING_TX_SCHED", 0x100),
    ("SOF_TIMESTAMPING_TX_ACK", 0x200),
    ("SOF_TIMESTAMPING_OPT_CMSG", 0x400),
    ("SOF_TIMESTAMPING_OPT_TSONLY", 0x800),
    ("SOF_TIMESTAMPING_OPT_ID_TCP", 0x10000),
    ("EPOLLIN", 0x1),
    ("EPOLLPRI", 0x2),
    ("EPOLLOUT", 0x4),
    ("EPOLLERR", 0x8),
    ("EPOLLHUP", 0x10),
    ("EPOLLRDNORM", 0x40),
    ("EPOLLWRNORM", 0x100),
    ("EPOLLRDHUP", 0x2000),
    ("POLLIN", 0x1),
    ("POLLPRI", 0x2),
    ("POLLOUT", 0x4),
    ("POLLERR", 0x8),
    ("POLLHUP", 0x10),
    ("POLLNVAL", 0x20),
    ("POLLRDNORM", 0x40),
    ("POLLWRNORM", 0x100),
    ("POLLRDHUP", 0x2000),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
];

/// Number of a name.
pub(super) fn number(name: &str) -> Option<i64> {
    NUMBERS.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

/// Parses a decimal or hexadecimal number, a name, or several joined by `|`, with or without
/// brackets.
pub(super) fn value(text: &str) -> Option<i64> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    text.split('|').try_fold(0, |bits, part| {
        let part = part.trim();
        let one = match part.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => part.parse().ok().or_else(|| number(part)),
        };
        one.map(|one| bits | one)
    })
}

/// Name and number of `errno` for an error.
pub(super) fn errno(error: SocketError) -> (&'static str, i64) {
    match error {
        SocketError::Reset => ("ECONNRESET", 104),
        SocketError::Refused => ("ECONNREFUSED", 111),
        SocketError::TimedOut => ("ETIMEDOUT", 110),
        SocketError::BrokenPipe => ("EPIPE", 32),
        SocketError::NotConnected => ("ENOTCONN", 107),
        SocketError::NetworkUnreachable => ("ENETUNREACH", 101),
        SocketError::HostUnreachable => ("EHOSTUNREACH", 113),
        SocketError::NoProtocol => ("ENOPROTOOPT", 92),
        SocketError::HostDown => ("EHOSTDOWN", 112),
        SocketError::NoNetwork => ("ENONET", 64),
        SocketError::NotSupported => ("EOPNOTSUPP", 95),
        SocketError::Forbidden => ("EACCES", 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_arguments() {
        for (text, expected) in [
            ("[1]", Some(1)),
            ("0x7f", Some(127)),
            ("O_RDWR|O_NONBLOCK", Some(0o4002)),
            ("-1", Some(-1)),
            ("...", None),
            ("NOBODY", None),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }
}
