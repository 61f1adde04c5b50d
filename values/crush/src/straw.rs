//! Lengths of the straws of straw buckets (superseded by straw2, kept for old maps).
//!
//! Straws are scaled so that drawing 16 bits per item and taking the longest product picks items by weight, as far as
//! one factor per item can do that. The arithmetic is in doubles, in exactly this order: the lengths are in the map.

/// 16.16 straw lengths for these weights. Version 0 counts equal and zero weights wrongly; maps that have it keep it.
pub(crate) fn lengths(weights: &[u32], version: u8) -> Vec<u32> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|i| weights[*i]);
    let mut straws = vec![0; weights.len()];
    let mut left = weights.len() as u32;
    let (mut straw, mut below, mut last) = (1.0f64, 0.0f64, 0.0f64);
    for (n, i) in order.iter().enumerate() {
        let weight = weights[*i];
        if weight == 0 {
            left -= u32::from(version > 0);
            continue;
        }
        straws[*i] = (straw * 65_536.0) as u32;
        let Some(next) = order.get(n + 1).map(|i| weights[*i]) else { break };
        if version == 0 && next == weight {
            continue;
        }
        below += (f64::from(weight) - last) * f64::from(left);
        left -= match version {
            0 => order[n + 1..].iter().take_while(|i| weights[**i] == next).count() as u32,
            _ => 1,
        };
        let step = f64::from(left.wrapping_mul(next - weight));
        straw *= (1.0 / (below / (below + step))).powf(1.0 / f64::from(left));
        last = f64::from(weight);
    }
    straws
}
