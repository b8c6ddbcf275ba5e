//! CRC-32C (Castagnoli polynomial, reflected), as the instruction of SSE 4.2 computes it: it starts with a given
//! remainder and inverts nothing.
#![allow(unsafe_code, reason = "one instruction, see SAFETY")]

/// A way to compute the CRC of integers, in memory order (little-endian).
pub trait Crc {
    fn u16(crc: u32, value: u16) -> u32;
    fn u32(crc: u32, value: u32) -> u32;
    fn u64(crc: u32, value: u64) -> u32;
}

/// A table of 256 words: any processor. The definition of the other form.
pub struct Table;

/// The polynomial, with its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The remainder that each byte leaves.
const REMAINDERS: [u32; 256] = {
    let mut remainders = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        remainders[byte] = crc;
        byte += 1;
    }
    remainders
};

fn bytes(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| REMAINDERS[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

impl Crc for Table {
    fn u16(crc: u32, value: u16) -> u32 {
        bytes(crc, &value.to_le_bytes())
    }

    fn u32(crc: u32, value: u32) -> u32 {
        bytes(crc, &value.to_le_bytes())
    }

    fn u64(crc: u32, value: u64) -> u32 {
        bytes(crc, &value.to_le_bytes())
    }
}

/// The instruction. Use it only inside functions that enable `sse4.2`, after the processor was asked for it.
#[cfg(target_arch = "x86_64")]
pub struct Instruction;

#[cfg(target_arch = "x86_64")]
impl Crc for Instruction {
    #[inline(always)]
    fn u16(crc: u32, value: u16) -> u32 {
        // SAFETY: only `signature::with_instruction` uses this type, where SSE 4.2 is enabled.
        unsafe { std::arch::x86_64::_mm_crc32_u16(crc, value) }
    }

    #[inline(always)]
    fn u32(crc: u32, value: u32) -> u32 {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm_crc32_u32(crc, value) }
    }

    #[inline(always)]
    fn u64(crc: u32, value: u64) -> u32 {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm_crc32_u64(u64::from(crc), value) as u32 } // the upper half is zero
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_gives_the_published_check_values() {
        // RFC 3720 B.4: 32 bytes of zeros, of ones, and rising. That CRC starts with ones and is inverted.
        let crc = |data: &[u8]| !bytes(!0, data);
        assert_eq!(crc(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc(&std::array::from_fn::<u8, 32, _>(|at| at as u8)), 0x46DD_794E);
        assert_eq!(crc(b"123456789"), 0xE306_9283);
    }
}
