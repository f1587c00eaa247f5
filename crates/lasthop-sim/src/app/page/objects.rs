//! The objects of a page.

use super::PageKeys;

/// A type of objects.
struct Type {
    /// Level at which it is discovered, with three levels.
    level: u32,
    /// Urgency (RFC 9218, section 4.1); 0 is the highest.
    urgency: u8,
    /// Number and bytes on the median page.
    count: u32,
    kilobytes: u32,
}

/// Types of objects in the order in which they are requested: documents, style sheets, scripts, fonts,
/// images, others.
const TYPES: [Type; 6] = [
    Type { level: 0, urgency: 0, count: 1, kilobytes: 18 },
    Type { level: 1, urgency: 0, count: 8, kilobytes: 78 },
    Type { level: 1, urgency: 1, count: 24, kilobytes: 613 },
    Type { level: 2, urgency: 0, count: 4, kilobytes: 131 },
    Type { level: 2, urgency: 3, count: 18, kilobytes: 1054 },
    Type { level: 2, urgency: 3, count: 16, kilobytes: 758 },
];
/// Objects of the median page.
const OBJECTS: u32 = 71;

/// An object of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub urgency: u8,
    /// The object that refers to it; `None` at the first level.
    pub parent: Option<u32>,
    pub mean: f64,
    /// Bytes of the response that have not arrived; known once it is requested.
    pub missing: u64,
}

/// Returns the objects of a page, without their sizes.
pub(super) fn objects(keys: &PageKeys) -> Vec<Object> {
    let mut below = 0;
    let mut boundary = 0;
    let counts = TYPES.each_ref().map(|kind| {
        boundary += kind.count;
        // Rounded, so that all types together have the given number; at least the document.
        let end = (2 * boundary * keys.objects + OBJECTS) / (2 * OBJECTS);
        let end = end.clamp(1, keys.objects);
        end - std::mem::replace(&mut below, end)
    });
    let present = TYPES.iter().zip(counts).filter(|(_, count)| *count > 0);
    let whole: u32 = present.map(|(kind, _)| kind.kilobytes).sum();
    let level = |kind: &Type| kind.level.min(keys.depth - 1);
    let mut objects = Vec::with_capacity(keys.objects as usize);
    let mut levels: [Vec<u32>; 3] = Default::default();
    for (kind, count) in TYPES.iter().zip(counts) {
        let share = f64::from(kind.kilobytes) / f64::from(whole) / f64::from(count);
        for _ in 0..count {
            let level = level(kind) as usize;
            // Parents are the objects of the level above, or the document.
            let above = levels[..level].iter().rfind(|above| !above.is_empty());
            let parent = above.map(|above| above[levels[level].len() % above.len()]);
            let urgency = if keys.priorities { kind.urgency } else { 0 };
            levels[level].push(objects.len() as u32);
            let mean = share * keys.size.get() as f64;
            objects.push(Object { urgency, parent, mean, missing: 0 });
        }
    }
    objects
}
