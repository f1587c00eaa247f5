//! Sockets and scripts: what their targets do with an input. The tests of the library do the same with the inputs in
//! `fuzz/corpus` (`tests/suite/fuzz_corpus.rs`).

use lasthop::packet::{Ecn, TcpHeader};
use lasthop::tcp::host::{
    EcnOffer, KeepAlive, Limits, Negotiated, ReceiveMemory, Segment, Settings, Socket, SynOptions,
    WriteOptions,
};
use lasthop::tcp::{Overrides, Profile, Variant, presets};
use lasthop::tcp_script::{DEFAULT_TOLERANCE, play};
use lasthop::units::{Bytes, Duration, Instant};
use std::sync::Arc;

/// Numbers of both ends; they wrap within the first window.
const INITIAL: u32 = u32::MAX - 1506;
const PEER: u32 = 0x7fff_ff00;

/// An input, read as numbers; zeros follow its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number of up to 16 bits, of which the largest are small ones below 0.
    fn near(&mut self) -> u32 {
        i32::from(i16::from_be_bytes([self.byte(), self.byte()])) as u32
    }
}

/// What the socket offers: a bit of `choice` each.
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

/// A socket with these settings, whose data one of several TCPs moves.
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

/// A segment of the peer. Numbers are near those that it should have, if `answers` knows them.
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

/// What the application does.
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

/// A socket whose peer and application do anything: it does not panic, falls silent when it is polled, asks for no
/// deadline that has passed, and lets the application read no more than the peer has sent.
///
/// Input: what is offered, what moves data, then for each step a pause and what happens.
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
    // Where the peer stands, as an honest one would.
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
            assert!(socket.next_timeout() > now, "a deadline that has passed");
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
                // SYN and FIN count.
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

/// All that leaves now.
fn drain(socket: &mut Socket, now: Instant, ack: &mut u32) {
    let mut count = 0;
    while let Some(segment) = socket.poll_transmit(now) {
        let header = &segment.header;
        *ack =
            header.seq.wrapping_add(header.payload).wrapping_add(u32::from(header.flags & 3 != 0));
        count += 1;
        assert!(count < 20_000, "it sends for ever");
        assert!(header.payload <= 65_535, "a segment of {} bytes", header.payload);
    }
}

/// Lines before those of an input: a connection that is open.
const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > S 0:0(0) <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 5>
+.1 < S. 0:0(0) ack 1 win 20000 <mss 1000,sackOK,TS val 1 ecr 1,nop,wscale 7>
+0 > . 1:1(0) ack 1 <nop,nop,TS val 2 ecr 1>
+0 write(3, ..., 5000) = 5000
";

/// Scripts: any text is played or refused with a reason.
///
/// Input: profile and form, then the script, its lines behind an open connection, or the statements of one.
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
