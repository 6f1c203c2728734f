//! Pieces in `f64`, with more than enough bits for a result in `f32`.

/// The polynomial with these coefficients, lowest power first, by Horner's rule.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.mul_add(x, coefficients[i]);
    }
    sum
}

/// 1.5 · 2^52: added to a number below 2^51, it leaves the nearest integer in the low bits of the sum.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// The nearest integer to `x`, and the bits whose low end is that integer.
#[inline(always)]
pub(super) fn nearest(x: f64) -> (f64, u64) {
    let shifted = x + ROUNDING;
    (shifted - ROUNDING, shifted.to_bits())
}

/// 2 to the integer at the low end of `bits`, which is from −1022 to 1023.
#[inline(always)]
fn power_of_two(bits: u64) -> f64 {
    f64::from_bits(bits.wrapping_add(1023) << 52)
}

/// e to the power `x`, `|x|` to 700, within 2^-43.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let (count, bits) = nearest(x * std::f64::consts::LOG2_E);
    let rest = count.mul_add(-1.908_214_929_270_587_7e-10, count.mul_add(-0.693_147_180_369_123_8, x));
    // (e^r − 1 − r) / r² for |r| to ln 2 / 2.
    let p = polynomial(
        rest,
        [
            0.499_999_999_999_545_86,
            0.166_666_666_666_625_38,
            0.041_666_666_787_306_87,
            0.008_333_333_344_297_457,
            0.001_388_883_882_245_324,
            0.000_198_412_243_378_289_58,
            2.486_806_180_983_520_7e-5,
            2.761_773_892_796_935_7e-6,
        ],
    );
    ((rest * rest).mul_add(p, rest) + 1.0) * power_of_two(bits)
}

/// 2 to the power `x`, `|x|` to 1000, within 2^-50.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    let (count, bits) = nearest(x);
    let rest = x - count;
    // (2^r − 1) / r for |r| to 1/2.
    let p = polynomial(
        rest,
        [
            0.693_147_180_559_946_2,
            0.240_226_506_959_100_75,
            0.055_504_108_664_651_67,
            0.009_618_129_107_618_665,
            0.001_333_355_820_079_459_2,
            0.000_154_035_304_247_765_29,
            1.525_267_292_485_073_7e-5,
            1.321_545_162_332_143_4e-6,
            1.020_590_541_376_559_5e-7,
            7.070_977_866_508_138e-9,
        ],
    );
    rest.mul_add(p, 1.0) * power_of_two(bits)
}

/// The natural logarithm of a number from √½ to √2, within 2^-52.
#[inline(always)]
pub(super) fn ln_of_factor(factor: f64) -> f64 {
    let s = (factor - 1.0) / (factor + 1.0);
    let square = s * s;
    // (2 artanh s − 2 s) / s³.
    let p = polynomial(
        square,
        [
            0.666_666_666_666_667,
            0.399_999_999_998_995_05,
            0.285_714_286_259_754_87,
            0.222_222_111_347_950_8,
            0.181_828_891_252_617_23,
            0.153_317_216_005_560_42,
            0.146_164_496_850_434_06,
        ],
    );
    (s * square).mul_add(p, 2.0 * s)
}

/// The natural logarithm of a positive, finite, normal number.
#[inline(always)]
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    // In 32 bits, since not every vector unit can shift 64 with their sign or make floats of them.
    let exponent = ((bits >> 32) as i32).wrapping_sub(0x3fe6_a09e) >> 20;
    let factor = f64::from_bits(bits.wrapping_sub((i64::from(exponent) as u64) << 52));
    f64::from(exponent).mul_add(std::f64::consts::LN_2, ln_of_factor(factor))
}
