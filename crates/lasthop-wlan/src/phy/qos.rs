//! From the DSCP of a packet to its user priority (RFC 8325, section 4.3) and access category (802.11-2020,
//! table 10-1).
//!
//! Sources: RFC 8325; RFC 8622 (LE); the priority bits of older hosts: `net/wireless/util.c` of Linux before
//! 6.12, `src/wifi/model/qos-utils.cc` of ns-3.44.

use lasthop_base::schema::keys::choice;

choice! {
    /// Mapping from the DSCP to the user priority.
    pub enum DscpMap {
        /// RFC 8325, as Linux from 6.12 on.
        Rfc8325 = "rfc8325",
        /// The upper three bits of the DSCP, as ns-3 and older versions of Linux: EF is video.
        Precedence = "precedence",
        /// User priority 0 for all packets.
        BestEffort = "best-effort",
    }
}

choice! {
    /// A DS code point with a name.
    pub enum Dscp {
        /// Default forwarding (RFC 2474): 0.
        Df = "DF",
        /// Lower effort (RFC 8622): 1.
        Le = "LE",
        /// Class selector 1 (RFC 2474): 8.
        Cs1 = "CS1",
        /// Class selector 2 (RFC 2474): 16.
        Cs2 = "CS2",
        /// Class selector 3 (RFC 2474): 24.
        Cs3 = "CS3",
        /// Class selector 4 (RFC 2474): 32.
        Cs4 = "CS4",
        /// Class selector 5 (RFC 2474): 40.
        Cs5 = "CS5",
        /// Class selector 6 (RFC 2474): 48.
        Cs6 = "CS6",
        /// Class selector 7 (RFC 2474): 56.
        Cs7 = "CS7",
        /// Assured forwarding, class 1, drop precedence 1 (RFC 2597): 10.
        Af11 = "AF11",
        /// Assured forwarding, class 1, drop precedence 2 (RFC 2597): 12.
        Af12 = "AF12",
        /// Assured forwarding, class 1, drop precedence 3 (RFC 2597): 14.
        Af13 = "AF13",
        /// Assured forwarding, class 2, drop precedence 1 (RFC 2597): 18.
        Af21 = "AF21",
        /// Assured forwarding, class 2, drop precedence 2 (RFC 2597): 20.
        Af22 = "AF22",
        /// Assured forwarding, class 2, drop precedence 3 (RFC 2597): 22.
        Af23 = "AF23",
        /// Assured forwarding, class 3, drop precedence 1 (RFC 2597): 26.
        Af31 = "AF31",
        /// Assured forwarding, class 3, drop precedence 2 (RFC 2597): 28.
        Af32 = "AF32",
        /// Assured forwarding, class 3, drop precedence 3 (RFC 2597): 30.
        Af33 = "AF33",
        /// Assured forwarding, class 4, drop precedence 1 (RFC 2597): 34.
        Af41 = "AF41",
        /// Assured forwarding, class 4, drop precedence 2 (RFC 2597): 36.
        Af42 = "AF42",
        /// Assured forwarding, class 4, drop precedence 3 (RFC 2597): 38.
        Af43 = "AF43",
        /// Capacity-admitted voice (RFC 5865): 44.
        VoiceAdmit = "VOICE-ADMIT",
        /// Expedited forwarding (RFC 3246): 46.
        Ef = "EF",
    }
}

impl Dscp {
    /// Returns the code point.
    pub const fn code(self) -> u8 {
        match self {
            Dscp::Df => 0,
            Dscp::Le => 1,
            Dscp::Cs1 => 8,
            Dscp::Cs2 => 16,
            Dscp::Cs3 => 24,
            Dscp::Cs4 => 32,
            Dscp::Cs5 => 40,
            Dscp::Cs6 => 48,
            Dscp::Cs7 => 56,
            Dscp::Af11 => 10,
            Dscp::Af12 => 12,
            Dscp::Af13 => 14,
            Dscp::Af21 => 18,
            Dscp::Af22 => 20,
            Dscp::Af23 => 22,
            Dscp::Af31 => 26,
            Dscp::Af32 => 28,
            Dscp::Af33 => 30,
            Dscp::Af41 => 34,
            Dscp::Af42 => 36,
            Dscp::Af43 => 38,
            Dscp::VoiceAdmit => 44,
            Dscp::Ef => 46,
        }
    }
}

choice! {
    /// Access category of EDCA, in increasing order of priority.
    pub enum AccessCategory {
        /// Background (AC_BK): user priorities 1 and 2.
        Background = "background",
        /// Best effort (AC_BE): user priorities 0 and 3.
        BestEffort = "best-effort",
        /// Video (AC_VI): user priorities 4 and 5.
        Video = "video",
        /// Voice (AC_VO): user priorities 6 and 7.
        Voice = "voice",
    }
}

impl AccessCategory {
    /// The categories in increasing order of priority.
    pub const ALL: [AccessCategory; 4] = [
        AccessCategory::Background,
        AccessCategory::BestEffort,
        AccessCategory::Video,
        AccessCategory::Voice,
    ];

    /// Returns the TID of the category's block-ack agreement: the lowest of its user priorities, 0 for best effort.
    pub const fn tid(self) -> u8 {
        match self {
            AccessCategory::Background => 1,
            AccessCategory::BestEffort => 0,
            AccessCategory::Video => 4,
            AccessCategory::Voice => 6,
        }
    }

    /// Returns the category of a user priority, of which the lower three bits count.
    pub const fn of_priority(priority: u8) -> Self {
        match priority & 7 {
            1 | 2 => AccessCategory::Background,
            0 | 3 => AccessCategory::BestEffort,
            4 | 5 => AccessCategory::Video,
            _ => AccessCategory::Voice,
        }
    }

    /// Returns the category of a DSCP.
    pub const fn of_dscp(map: DscpMap, dscp: u8) -> Self {
        Self::of_priority(user_priority(map, dscp))
    }
}

/// Returns the user priority, 0 to 7, of a DSCP, of which the lower six bits count.
pub const fn user_priority(map: DscpMap, dscp: u8) -> u8 {
    let dscp = dscp & 0x3f;
    match map {
        DscpMap::BestEffort => 0,
        DscpMap::Precedence => dscp >> 3,
        DscpMap::Rfc8325 => match dscp {
            // CS7, CS6.
            56 | 48 => 7,
            // EF, VOICE-ADMIT.
            46 | 44 => 6,
            // CS5.
            40 => 5,
            // AF41 to AF43, CS4, AF31 to AF33, CS3.
            34 | 36 | 38 | 32 | 26 | 28 | 30 | 24 => 4,
            // AF21 to AF23.
            18 | 20 | 22 => 3,
            // CS1, LE.
            8 | 1 => 1,
            // CS2, AF11 to AF13, DF and unassigned code points.
            _ => 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8325, section 4.3, row by row. Class selector n is 8 n, AFxy is 8 x + 2 y.
    const RFC_8325: [(&str, &[u8], u8, AccessCategory); 14] = [
        ("CS7", &[56], 7, AccessCategory::Voice),
        ("CS6", &[48], 7, AccessCategory::Voice),
        ("EF", &[46], 6, AccessCategory::Voice),
        ("VOICE-ADMIT", &[44], 6, AccessCategory::Voice),
        ("CS5", &[40], 5, AccessCategory::Video),
        ("AF4x", &[34, 36, 38], 4, AccessCategory::Video),
        ("CS4", &[32], 4, AccessCategory::Video),
        ("AF3x", &[26, 28, 30], 4, AccessCategory::Video),
        ("CS3", &[24], 4, AccessCategory::Video),
        ("AF2x", &[18, 20, 22], 3, AccessCategory::BestEffort),
        ("CS2", &[16], 0, AccessCategory::BestEffort),
        ("AF1x", &[10, 12, 14], 0, AccessCategory::BestEffort),
        ("CS1", &[8], 1, AccessCategory::Background),
        ("LE", &[1], 1, AccessCategory::Background),
    ];

    #[test]
    fn all_64_code_points() {
        for dscp in 0..64 {
            let row = RFC_8325.iter().find(|(_, points, ..)| points.contains(&dscp));
            let (name, _, priority, category) =
                row.copied().unwrap_or(("DF or unassigned", &[], 0, AccessCategory::BestEffort));
            assert_eq!(user_priority(DscpMap::Rfc8325, dscp), priority, "{dscp}: {name}");
            assert_eq!(AccessCategory::of_dscp(DscpMap::Rfc8325, dscp), category, "{dscp}: {name}");
            assert_eq!(user_priority(DscpMap::Precedence, dscp), dscp / 8, "{dscp}");
            assert_eq!(user_priority(DscpMap::BestEffort, dscp), 0, "{dscp}");
        }
        // EF: 46 >> 3 = 5, video.
        assert_eq!(AccessCategory::of_dscp(DscpMap::Precedence, 46), AccessCategory::Video);
    }

    #[test]
    fn categories_of_the_user_priorities() {
        use AccessCategory::{Background, BestEffort, Video, Voice};
        let found: Vec<_> = (0..8).map(AccessCategory::of_priority).collect();
        let expected = [BestEffort, Background, Background, BestEffort, Video, Video, Voice, Voice];
        assert_eq!(found, expected);
    }
}
