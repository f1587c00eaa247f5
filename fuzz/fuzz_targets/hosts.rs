//! The targets for sockets and conformance scripts. The tests of the library run them with the inputs
//! in `fuzz/corpus` (`tests/suite/fuzz_corpus.rs`).

use lasthop::packet::{Ecn, TcpHeader};
use lasthop::tcp::host::{
    EcnOffer, KeepAlive, Limits, Negotiated, ReceiveMemory, Segment, Settings, Socket, SynOptions,
    WriteOptions,
};
use lasthop::tcp::{Overrides, Profile, Variant, presets};
use lasthop::tcp_script::{DEFAULT_TOLERANCE, play};
use lasthop::units::{Bytes, Duration, Instant};
use std::sync::Arc;

/// Initial sequence number of the socket, which wraps within the first window.
const INITIAL: u32 = u32::MAX - 1506;
/// Initial sequence number of the peer.
const PEER: u32 = 0x7fff_ff00;

/// Remaining input, read as numbers. Reads beyond its end return zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Reads 16 bits as a signed number in two's complement, modulo 2^32.
    fn near(&mut self) -> u32 {
        i32::from(i16::from_be_bytes([self.byte(), self.byte()])) as u32
    }
}

/// Settings of a socket. Each bit of `choice` selects an option.
fn settings(choice: u8) -> Settings {
    let is_linux = choice & 1 != 0;
    Settings {
        mss: 1460,
        mtu: 1500,
        window_scale: (choice & 2 != 0).then_some(7),
        sack: choice & 4 != 0,
        timestamps: choice & 8 != 0,
        ecn: if choice & 16 != 0 { EcnOffer::Asks } else { EcnOffer::Grants },
        initial_sequence: INITIAL,
        receive_buffer: 20_000,
        receive_memory: is_linux.then_some(ReceiveMemory {
            size: 40_000,
            most: 400_000,
            clamp: None,
            grows: true,
        }),
        send_buffer: (50_000, false),
        unsent_limit: None,
        syn_retries: [3, 3],
        retries: 5,
        orphan_retries: 3,
        longest_rto: Duration::from_secs(60),
        time_wait: Duration::from_secs(60),
        fin_wait: Duration::from_secs(60),
        ack_delay: Duration::from_millis(40),
        user_timeout: None,
        keep_alive: None,
        deferred_accept: 0,
        delays_first_ack: choice & 32 != 0,
        mtu_probing: None,
        limits: Limits::default(),
        boot_offset: Duration::ZERO,
    }
}

/// Socket with the settings of `choice` and the TCP variant that `sender` selects.
fn socket(choice: u8, sender: u8) -> Socket {
    let is_linux = choice & 1 != 0;
    let all = [Variant::NewReno, Variant::Sack, Variant::Cubic, Variant::Bbr];
    let variant = all[usize::from(sender) % all.len()];
    let configure = move |negotiated: Negotiated| {
        let set = Overrides {
            segment: Some(Bytes::new(negotiated.segment.into())),
            timestamps: Some(negotiated.timestamps),
            sack: is_linux.then_some(negotiated.sack),
            ecn: Some(negotiated.ecn),
            autotuning: is_linux.then_some(false),
            ..Overrides::default()
        };
        let variant = if negotiated.sack || is_linux { variant } else { Variant::NewReno };
        let profile = if is_linux { Profile::Linux } else { Profile::Rfc };
        presets::config(variant, profile, &set)
    };
    Socket::new(settings(choice), Arc::new(configure))
}

/// Reads a segment of the peer. Its numbers equal the expected ones, or differ from them by up to 2^15.
fn segment(input: &mut Input, (seq, ack): (u32, u32)) -> Segment {
    let flags = input.byte();
    let kind = input.byte();
    let mut header = TcpHeader {
        seq: if kind & 1 != 0 { seq } else { seq.wrapping_add(input.near()) },
        ack: if kind & 2 != 0 { ack } else { ack.wrapping_add(input.near()) },
        payload: if kind & 4 != 0 { 0 } else { input.near() & 0xffff },
        window: if kind & 8 != 0 { 20_000 } else { input.near() & 0xffff },
        flags,
        ecn: Ecn::from_bits(input.byte() & 3),
        ..TcpHeader::default()
    };
    if kind & 16 != 0 {
        let blocks: Vec<_> = (0..input.byte() % 4)
            .map(|_| (ack.wrapping_add(input.near()), ack.wrapping_add(input.near())))
            .collect();
        header.set_sack_blocks(&blocks);
    }
    if kind & 32 != 0 {
        header.has_timestamps = true;
        header.options.timestamps = (input.near(), input.near());
    }
    let options = SynOptions {
        mss: (kind & 64 != 0).then(|| input.near() & 0xffff),
        window_scale: (kind & 128 != 0).then(|| input.byte()),
        sack_permitted: kind & 64 != 0,
    };
    Segment { header, options }
}

/// Reads and executes a call of the application.
fn call(socket: &mut Socket, now: Instant, input: &mut Input) {
    let bytes = u64::from(input.near() & 0xffff);
    let options = WriteOptions { more: bytes & 1 != 0, end_of_record: bytes & 2 != 0 };
    match input.byte() % 16 {
        0 => socket.close(now),
        1 => socket.shut_down_writes(now),
        2 => socket.shut_down_reads(),
        3 => socket.set_corked(bytes & 1 != 0),
        4 => socket.set_nodelay(bytes & 1 != 0),
        5 => socket.set_receive_buffer(bytes as u32 + 1),
        6 => socket.set_window_clamp(bytes as u32 + 1),
        7 => socket.set_quick_acks(bytes & 1 != 0),
        8 => socket.set_user_timeout(now, Some(Duration::from_millis(bytes))),
        9 => socket.set_send_buffer(bytes as u32 + 1),
        10 => socket.set_keep_alive(
            now,
            Some(KeepAlive {
                idle: Duration::from_secs(1 + bytes),
                interval: Duration::from_secs(1),
                probes: 3,
            }),
        ),
        11 => socket.abort(now, None),
        12 | 13 => drop(socket.write_some(now, bytes, options, true)),
        _ => drop(socket.write(now, bytes, options)),
    }
}

/// A socket with an arbitrary peer and application: no panic. Polling ends, each deadline is in the
/// future, and the application reads at most the data that the peer has sent.
///
/// Input: settings, TCP variant, then for each step an idle time and a call, a read or a segment.
pub fn sockets(data: &[u8]) {
    let mut input = Input(data);
    let (choice, sender) = (input.byte(), input.byte());
    let mut socket = socket(choice, sender);
    let mut now = Instant::from_nanos(1_000_000);
    if choice & 64 != 0 {
        socket.listen();
    } else {
        socket.connect();
    }
    // Sequence and acknowledgment number of the next segment of a conforming peer.
    let (mut seq, mut ack) = (PEER, INITIAL);
    let (mut sent, mut read) = (0u64, 0u64);
    for _ in 0..64 {
        if input.0.is_empty() {
            break;
        }
        let until = now + Duration::from_nanos(u64::from(input.byte()) << (10 + input.byte() % 20));
        while socket.next_timeout() <= until {
            now = now.max(socket.next_timeout());
            socket.handle_timeout(now);
            drain(&mut socket, now, &mut ack);
            assert!(socket.next_timeout() > now, "the deadline is not in the future");
        }
        now = until;
        match input.byte() % 4 {
            0 => call(&mut socket, now, &mut input),
            1 => {
                let bytes = u64::from(input.near() & 0xffff);
                read += socket.read(now, bytes);
            }
            _ => {
                let segment = segment(&mut input, (seq, ack));
                let header = &segment.header;
                sent += u64::from(header.payload);
                let next = header.seq.wrapping_add(header.payload);
                // SYN and FIN take a sequence number.
                seq = next.wrapping_add(u32::from(header.flags & 3 != 0));
                socket.receive(now, &segment);
            }
        }
        drain(&mut socket, now, &mut ack);
        assert!(
            read + socket.unread() <= sent,
            "{read} read, {} unread of {sent}",
            socket.unread()
        );
        let _ = (socket.info(), socket.is_writable(), socket.unacknowledged());
    }
}

/// Polls all segments that can be sent now, and stores the acknowledgment of the last one in `ack`.
fn drain(socket: &mut Socket, now: Instant, ack: &mut u32) {
    let mut count = 0;
    while let Some(segment) = socket.poll_transmit(now) {
        let header = &segment.header;
        *ack =
            header.seq.wrapping_add(header.payload).wrapping_add(u32::from(header.flags & 3 != 0));
        count += 1;
        assert!(count < 20_000, "the socket does not stop sending");
        assert!(header.payload <= 65_535, "a segment of {} bytes", header.payload);
    }
}

/// Lines before the input, which open a connection.
const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > S 0:0(0) <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 5>
+.1 < S. 0:0(0) ack 1 win 20000 <mss 1000,sackOK,TS val 1 ecr 1,nop,wscale 7>
+0 > . 1:1(0) ack 1 <nop,nop,TS val 2 ecr 1>
+0 write(3, ..., 5000) = 5000
";

/// Scripts: any text is run or rejected with a reason.
///
/// Input: profile and form, then a whole script, lines after an open connection, or statements of a
/// script.
pub fn scripts(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let profile = if choice & 1 != 0 { Profile::Linux } else { Profile::Rfc };
    let text = match choice >> 1 & 3 {
        0 | 1 => text.into_owned(),
        2 => format!("{OPEN}{text}"),
        _ => format!("{OPEN}+.01 %{{ {text} }}%\n+.01 %{{ print(tcpi_snd_cwnd) }}%\n"),
    };
    let _ = play(&text, profile, DEFAULT_TOLERANCE);
}
