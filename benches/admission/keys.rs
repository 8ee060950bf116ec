//! A key file of any size in the format of the program, and well-formed keys that are not in it.

use crate::common::prelude::*;
use bitcoin_hashes::sha256;
use zlib_rs::crc32::crc32;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn digits(mut number: u64, count: usize) -> String {
    let mut out = vec![b'0'; count];
    for digit in out.iter_mut().rev() {
        *digit = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    String::from_utf8(out).unwrap()
}

/// The id of a key. Issued keys have even numbers.
fn id(number: u64) -> String {
    // Spreads the numbers over all ids in ascending order: 62^10 / 2^40.
    digits(number * 763_334 * 5_000_000, 10)
}

fn key(number: u64, secret: u64) -> String {
    let text = format!("im_live_{}_{}", id(number), digits(secret, 30));
    let check = digits(crc32(0, text.as_bytes()).into(), 6);
    text + &check
}

/// Writes a key file with `keys` keys of as many addresses, every third revoked.
pub(crate) fn write(directory: &Path, keys: u32) {
    let mut lines = String::new();
    for number in 0..keys {
        let key = key(2 * u64::from(number), number.into());
        let secret = key.rsplit('_').next().unwrap();
        let mut sha256 = String::new();
        for byte in sha256::hash(secret.as_bytes()).to_byte_array() {
            let _ = write!(sha256, "{byte:02x}");
        }
        let _ = writeln!(
            lines,
            r#"{{"number":{number},"id":"{}","tier":"free","address":"{number}@x.test","issued":0,"revoked":{},"sha256":"{sha256}"}}"#,
            id(2 * u64::from(number)),
            if number % 3 == 0 { "1" } else { "null" }
        );
    }
    let header = format!(
        "{{\"format\":\"island-metrics keys 1\",\"revision\":1,\"next\":{keys},\"keys\":{keys},\"crc32\":{}}}\n",
        crc32(0, format!("1 {keys} {keys}\n{lines}").as_bytes())
    );
    write_file(&directory.join("keys.jsonl"), header + &lines).unwrap();
}

/// A key that was issued.
pub(crate) fn known(number: u32) -> String {
    key(2 * u64::from(number), number.into())
}

/// The id of an issued key with another secret.
pub(crate) fn wrong_secret(number: u32) -> String {
    key(2 * u64::from(number), u64::from(number) + 1)
}

/// A key with an id that was not issued.
pub(crate) fn unknown(number: u32) -> String {
    key(2 * u64::from(number) + 1, number.into())
}
