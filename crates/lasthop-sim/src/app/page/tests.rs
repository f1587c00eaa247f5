//! The objects of a page, and the order of frames.

use super::*;

/// Returns the number of objects of each type and level.
fn counts(objects: u32, depth: u32) -> (Vec<usize>, Vec<Option<u32>>) {
    let keys = PageKeys { objects, depth, ..keys() };
    let objects = super::objects(&keys);
    let sizes: Vec<_> = objects.iter().map(|object| object.mean).collect();
    let total: f64 = sizes.iter().sum();
    assert!((total - 2_652_000.0).abs() < 1.0, "{total}");
    let runs = sizes.chunk_by(|one, other| one == other);
    (runs.map(<[f64]>::len).collect(), objects.iter().map(|object| object.parent).collect())
}

fn keys() -> PageKeys {
    PageKeys {
        http: None,
        pages: 1,
        objects: 71,
        size: Bytes::new(2_652_000),
        sizes: Sizes::Constant,
        depth: 3,
        server_time: Duration::ZERO,
        connections: 6,
        certificate: Bytes::new(0),
        priorities: true,
    }
}

#[test]
fn types_have_their_numbers() {
    let (numbers, parents) = counts(71, 3);
    assert_eq!(numbers, [1, 8, 24, 4, 18, 16]);
    assert_eq!((parents[0], parents[1], parents[32]), (None, Some(0), Some(0)));
    // Fonts, images and others are assigned to the 32 style sheets and scripts in turn.
    assert_eq!((parents[33], parents[64], parents[65]), (Some(1), Some(32), Some(1)));
    assert!(counts(71, 2).1[1..].iter().all(|&parent| parent == Some(0)));
    assert!(counts(71, 1).1.iter().all(Option::is_none));
    assert_eq!(counts(1, 3).0, [1]);
    for objects in 2..200 {
        assert_eq!(counts(objects, 3).0.iter().sum::<usize>(), objects as usize);
    }
}

/// With HTTP/2, frames of the most urgent responses are written first, in turn, until 32 kB are
/// unsent.
#[test]
fn urgent_frames_are_written_first() {
    let mut page = Page::new(&keys(), &Streams { seed: 1, replication: 0 }, "test");
    page.start(Instant::ZERO);
    page.actions.clear();
    page.lanes[0].pipes = Default::default();
    // An image, two scripts and a style sheet.
    page.lanes[0].responses = vec![(40, 20_000), (10, 20_000), (11, 1_000), (1, 5_000)];
    let mut order = Vec::new();
    while page.on_unsent(0, 0) {
        let messages = page.lanes[0].pipes[End::Acceptor.index()].messages.drain(..);
        let parts = messages.map(|(message, _, part)| match message {
            Message::Object(object) => (object, part),
            Message::Hello => (u32::MAX, part),
        });
        order.push(parts.collect::<Vec<_>>());
        assert!(!page.on_unsent(0, UNSENT));
    }
    let first = vec![(1, 5_000), (10, FRAME), (11, 1_000), (10, 20_000 - FRAME), (40, FRAME)];
    assert_eq!(order, [first, vec![(40, 20_000 - FRAME)]]);
}
