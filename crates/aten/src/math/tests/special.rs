//! Values of the special functions, to the digits that tables give.

use crate::math::{Activation, Float};

#[track_caller]
fn assert_near(got: f64, right: f64) {
    assert!((got - right).abs() <= 4e-15 * right.abs().max(1e-3), "{got:?}, not {right:?}");
}

#[test]
fn known_values() {
    assert_near(1.0f64.digamma(), -0.577_215_664_901_532_9);
    assert_near(0.5f64.digamma(), -1.963_510_026_021_423_5);
    assert_near((-1.5f64).digamma(), 0.703_156_640_645_243_2);
    assert_near(100.0f64.digamma(), 4.600_161_852_738_087);
    assert_near(1.0f64.i0(), 1.266_065_877_752_008_4);
    assert_near(10.0f64.i0(), 2_815.716_628_466_254_4);
    assert_near(100.0f64.i0(), 1.073_751_707_131_073_8e42);
    assert_near(0.5f64.erfinv(), 0.476_936_276_204_469_9);
    assert_near((-0.999f64).erfinv(), -2.326_753_765_513_524_7);
    assert_near(0.5f64.lgamma(), 0.572_364_942_924_700_1);
    assert_near((-2.5f64).lgamma(), -0.056_243_716_497_674_05);
    assert_near(2.0f64.gelu(), 1.954_499_736_103_641_6);
    assert_near(0.5f64.sinc(), std::f64::consts::FRAC_2_PI);
    assert_near(1.0f64.softplus(1.0, 20.0), 1.313_261_687_518_222_8);
}

#[test]
fn the_inverse_of_erf_is_its_inverse() {
    for i in -999..=999 {
        let x = f64::from(i) / 1000.0;
        assert_near(libm::erf(x.erfinv()), x);
    }
    for x in [1e-300f64, 1e-10, 1e-4, 9.9e-4, 1.1e-3] {
        assert!((libm::erf(x.erfinv()) / x - 1.0).abs() < 1e-15);
    }
    assert!((1.0 - 1e-15f64).erfinv().is_finite());
}

#[test]
fn bessel_s_two_series_meet() {
    let (below, above) = (30.0f64.i0(), 30.000_000_000_001f64.i0());
    assert!((above / below - 1.0).abs() < 1e-11);
}
