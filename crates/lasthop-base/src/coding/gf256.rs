//! The field of 256 elements: bytes as polynomials over GF(2), modulo x^8 + x^4 + x^3 + x^2 + 1
//! (0x11d), of which x is a primitive element. Addition is exclusive or.

/// x^8 without the leading term.
pub const REDUCTION: u8 = 0x1d;

/// Number of nonzero elements, all of which are powers of x.
const ORDER: usize = 255;

/// Powers of x, repeated three times: a sum of two logarithms, minus a third one, needs no
/// reduction.
const POWERS: [u8; 3 * ORDER] = {
    let mut powers = [0; 3 * ORDER];
    let (mut value, mut exponent) = (1u8, 0);
    while exponent < powers.len() {
        powers[exponent] = value;
        value = double(value);
        exponent += 1;
    }
    powers
};

/// Logarithms to the base x; that of 0 is never used.
const LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let mut exponent = 0;
    while exponent < ORDER {
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
};

/// x times an element.
#[inline(always)]
pub const fn double(value: u8) -> u8 {
    // The sign bit, spread over the byte, selects the reduction.
    value << 1 ^ ((value as i8 >> 7) as u8 & REDUCTION)
}

/// The product of two elements.
#[inline]
pub const fn multiply(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[left as usize] as usize + LOGARITHMS[right as usize] as usize]
}

/// The logarithm of an element other than 0, to the base x.
#[inline]
pub fn logarithm(value: u8) -> i32 {
    debug_assert!(value != 0, "0 has no logarithm");
    i32::from(LOGARITHMS[usize::from(value)])
}

/// The logarithm from 0 to 254 of the element that has `logarithm`.
#[inline]
pub fn reduced(logarithm: i32) -> i32 {
    logarithm.rem_euclid(ORDER as i32)
}

/// The element whose logarithm is `logarithm`: a sum of two logarithms, minus a third one, each
/// from 0 to 254.
#[inline]
pub fn power(logarithm: i32) -> u8 {
    POWERS[(logarithm + ORDER as i32) as usize]
}

/// The inverse of an element other than 0.
#[inline]
pub fn invert(value: u8) -> u8 {
    debug_assert!(value != 0, "0 has no inverse");
    POWERS[ORDER - usize::from(LOGARITHMS[usize::from(value)])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies two polynomials and reduces the product, as the definition states.
    fn by_hand(left: u8, right: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            product ^= (u16::from(left) << bit) * u16::from(right >> bit & 1);
        }
        for bit in (8..15).rev() {
            product ^= (0x11d << (bit - 8)) * (product >> bit & 1);
        }
        product as u8
    }

    #[test]
    fn multiplies_polynomials() {
        for left in 0..=255 {
            for right in 0..=255 {
                assert_eq!(multiply(left, right), by_hand(left, right), "{left} {right}");
            }
            assert_eq!(double(left), by_hand(left, 2));
        }
    }

    #[test]
    fn inverts_all_but_zero() {
        for value in 1..=255 {
            assert_eq!(multiply(value, invert(value)), 1, "{value}");
        }
    }
}
