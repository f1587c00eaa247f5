//! Typed indices into the world's tables, so that an index of one table cannot be used for another.

/// Declares an index type.
macro_rules! id {
    ($(#[$doc:meta])* $visibility:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility struct $name(u32);

        impl $name {
            /// Creates the index of the entry at `index` of its table.
            #[inline]
            pub const fn new(index: usize) -> Self {
                $name(index as u32)
            }

            /// Returns the index of the entry in its table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// One direction of a link. Links are numbered from 0 in the order in which they were added.
    pub DirectionId
}

id! {
    /// A driven link: both ends.
    pub(super) LineId
}

id! {
    /// A framed radio.
    pub RadioId
}

id! {
    /// A flow, in the order of the scenario.
    pub FlowId
}

id! {
    /// A connection: both its ends.
    pub ConnectionId
}

id! {
    /// A medium shared by the stations of WLANs.
    pub AirId
}

id! {
    /// A source of datagrams.
    pub(super) SourceId
}

id! {
    /// An attached agent.
    pub(super) SeatId
}

id! {
    /// A route through the network.
    pub(super) PathId
}

/// An end of a link, named after the direction on which it transmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Transmits on the forward direction.
    Forward,
    /// Transmits on the reverse direction.
    Reverse,
}

impl Side {
    /// Both ends.
    pub const BOTH: [Side; 2] = [Side::Forward, Side::Reverse];

    /// Returns the other end.
    #[inline]
    pub const fn other(self) -> Side {
        match self {
            Side::Forward => Side::Reverse,
            Side::Reverse => Side::Forward,
        }
    }

    /// Returns the name of the direction on which it transmits.
    pub const fn word(self) -> &'static str {
        match self {
            Side::Forward => "forward",
            Side::Reverse => "reverse",
        }
    }
}

impl DirectionId {
    /// Returns the direction of link `link` on which the end `side` transmits.
    #[inline]
    pub const fn of(link: usize, side: Side) -> Self {
        DirectionId::new(2 * link + side as usize)
    }

    /// Returns the end of its link that transmits on it.
    #[inline]
    pub const fn side(self) -> Side {
        if self.0.is_multiple_of(2) { Side::Forward } else { Side::Reverse }
    }

    /// Returns the index of its link.
    #[inline]
    pub const fn link(self) -> usize {
        self.index() / 2
    }

    /// Returns the other direction of its link.
    #[inline]
    pub const fn opposite(self) -> Self {
        DirectionId::of(self.link(), self.side().other())
    }
}
