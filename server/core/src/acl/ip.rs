//! The ip scheme: an address, or a range of addresses with the same leading bits
//! (`IPAuthenticationProvider`).

use std::net::IpAddr;

/// The address of a range and the number of its leading bits that must match. `None` if the text is
/// not a range.
fn parse(range: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match range.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (range, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(all), |bits| bits.parse().ok())?;
    (bits <= all).then_some((address, bits))
}

pub(super) fn is_valid(range: &str) -> bool {
    parse(range).is_some()
}

/// Whether `address` is in `range`. An IPv4 address is in no IPv6 range, and the other way round.
pub(super) fn matches(range: &str, address: &str) -> bool {
    let (Some((range, bits)), Ok(address)) = (parse(range), address.parse::<IpAddr>()) else {
        return false;
    };
    match (range, address) {
        (IpAddr::V4(range), IpAddr::V4(address)) => {
            (range.to_bits() ^ address.to_bits()).leading_zeros() >= bits
        }
        (IpAddr::V6(range), IpAddr::V6(address)) => {
            (range.to_bits() ^ address.to_bits()).leading_zeros() >= bits
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_match_by_their_leading_bits() {
        assert!(matches("10.0.0.0/8", "10.9.8.7"));
        assert!(!matches("10.0.0.0/8", "11.0.0.0"));
        assert!(matches("0.0.0.0/0", "1.2.3.4"));
        assert!(matches("127.0.0.1", "127.0.0.1"));
        assert!(matches("2001:db8::/32", "2001:db8::1"));
        assert!(!matches("::/0", "1.2.3.4"));
        for range in ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/x", "::1/129", "host"] {
            assert!(!is_valid(range), "{range}");
        }
    }
}
