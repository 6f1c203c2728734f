//! Values of the special functions, to the digits that tables give.

use crate::math::{Activation, Float, Orthogonal, Special};

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

/// A name, the function, its argument and its value.
type Row = (&'static str, fn(f64) -> f64, f64, f64);

const OF_ONE: &[Row] = &[
    ("erfcx", f64::erfcx, -2.0, 108.94090438997797),
    ("erfcx", f64::erfcx, -0.5, 1.952360489182557),
    ("erfcx", f64::erfcx, 0.5, 0.6156903441929259),
    ("erfcx", f64::erfcx, 1.9, 0.26650937366167265),
    ("erfcx", f64::erfcx, 2.1, 0.24511912334517233),
    ("erfcx", f64::erfcx, 10.0, 0.05614099274382259),
    ("erfcx", f64::erfcx, 24.9, 0.022639987776049506),
    ("erfcx", f64::erfcx, 25.1, 0.02245987581758139),
    ("erfcx", f64::erfcx, 1000.0, 0.0005641893014533876),
    ("log_ndtr", f64::log_ndtr, -50.0, -1254.8313611394199),
    ("log_ndtr", f64::log_ndtr, -5.0, -15.064998393988725),
    ("log_ndtr", f64::log_ndtr, -1.1, -1.997558846986297),
    ("log_ndtr", f64::log_ndtr, -0.9, -1.6924928065613383),
    ("log_ndtr", f64::log_ndtr, 0.5, -0.3689464152886564),
    ("log_ndtr", f64::log_ndtr, 3.0, -0.0013508099647481938),
    ("ndtri", f64::ndtri, 1e-300, -37.0470962993612),
    ("ndtri", f64::ndtri, 1e-05, -4.264890793922825),
    ("ndtri", f64::ndtri, 0.05, -1.6448536269514726),
    ("ndtri", f64::ndtri, 0.2, -0.8416212335729142),
    ("ndtri", f64::ndtri, 0.5, 0.0),
    ("ndtri", f64::ndtri, 0.9, 1.2815515655446006),
    ("i0e", f64::i0e, 0.5, 0.6450352704491501),
    ("i0e", f64::i0e, 29.0, 0.07440746822222559),
    ("i0e", f64::i0e, 31.0, 0.07194649669698383),
    ("i0e", f64::i0e, 500.0, 0.017845706500153168),
    ("i1", f64::i1, 0.5, 0.2578943053908963),
    ("i1", f64::i1, -3.0, -3.9533702174026093),
    ("i1", f64::i1, 29.0, 287432108126.2548),
    ("i1", f64::i1, 31.0, 2055972795294.5647),
    ("i1", f64::i1, 100.0, 1.0683693903381625e+42),
    ("i1e", f64::i1e, 0.5, 0.1564208031848717),
    ("i1e", f64::i1e, 29.0, 0.07311311793938836),
    ("i1e", f64::i1e, 31.0, 0.07077639283438568),
    ("i1e", f64::i1e, 500.0, 0.017827851852898056),
    ("k0", f64::k0, 1e-10, 23.14178244559887),
    ("k0", f64::k0, 0.01, 4.721244730161095),
    ("k0", f64::k0, 0.5, 0.9244190712276659),
    ("k0", f64::k0, 2.0, 0.11389387274953344),
    ("k0", f64::k0, 30.0, 2.1324774964630563e-14),
    ("k1", f64::k1, 1e-10, 10000000000.0),
    ("k1", f64::k1, 0.001, 999.9962381560856),
    ("k1", f64::k1, 0.5, 1.656441120003301),
    ("k1", f64::k1, 2.0, 0.13986588181652243),
    ("k1", f64::k1, 30.0, 2.1677320018915495e-14),
    ("k0e", f64::k0e, 0.5, 1.5241093857739094),
    ("k0e", f64::k0e, 300.0, 0.0723300317396073),
    ("k1e", f64::k1e, 0.5, 2.731009708211786),
    ("k1e", f64::k1e, 300.0, 0.07245048166725841),
    ("airy_ai", f64::airy_ai, -20.0, -0.1764061270779847),
    ("airy_ai", f64::airy_ai, -8.0, -0.0527050503563862),
    ("airy_ai", f64::airy_ai, -6.5, -0.2380203019971158),
    ("airy_ai", f64::airy_ai, -3.0, -0.37881429367765806),
    ("airy_ai", f64::airy_ai, 0.0, 0.3550280538878172),
    ("airy_ai", f64::airy_ai, 0.5, 0.23169360648083348),
    ("airy_ai", f64::airy_ai, 1.5, 0.07174949700810541),
    ("airy_ai", f64::airy_ai, 6.0, 9.947694360252889e-06),
    ("airy_ai", f64::airy_ai, 20.0, 1.6916728686705404e-27),
    ("j0", f64::j0, 0.5, 0.9384698072408129),
    ("j0", f64::j0, 10.0, -0.24593576445134835),
    ("y1", f64::y1, 0.5, -1.471472392670243),
    ("y1", f64::y1, 10.0, 0.24901542420695388),
];

/// A name, the function, its arguments and its value.
type RowOfTwo = (&'static str, fn(f64, f64) -> f64, f64, f64, f64);

const OF_TWO: &[RowOfTwo] = &[
    ("igamma", f64::igamma, 0.5, 0.2, 0.4729107431344619),
    ("igamma", f64::igamma, 0.5, 3.0, 0.9856941215645704),
    ("igamma", f64::igamma, 10.0, 9.0, 0.4125917556680586),
    ("igamma", f64::igamma, 10.0, 12.0, 0.7576078383294876),
    ("igamma", f64::igamma, 100.0, 90.0, 0.15822098918643016),
    ("igamma", f64::igamma, 100.0, 120.0, 0.9721362601094793),
    ("igamma", f64::igamma, 10000.0, 10100.0, 0.8413487504471796),
    ("igammac", f64::igammac, 0.5, 0.2, 0.5270892568655381),
    ("igammac", f64::igammac, 0.5, 3.0, 0.01430587843542964),
    ("igammac", f64::igammac, 10.0, 9.0, 0.5874082443319414),
    ("igammac", f64::igammac, 10.0, 30.0, 7.121750862815577e-06),
    ("igammac", f64::igammac, 100.0, 90.0, 0.8417790108135699),
    ("igammac", f64::igammac, 100.0, 150.0, 5.924540335483916e-06),
    ("zeta", f64::zeta, 2.0, 1.0, 1.6449340668482264),
    ("zeta", f64::zeta, 1.5, 0.3, 8.237761671459724),
    ("zeta", f64::zeta, 5.0, 20.0, 1.7252490719331944e-06),
    ("zeta", f64::zeta, 30.0, 2.0, 9.313274324196682e-10),
    ("zeta", f64::zeta, 2.5, 1000.0, 2.1097669044166766e-05),
    ("zeta", f64::zeta, 3.0, -0.5, 0.41439832211716),
];

#[track_caller]
fn assert_close(what: &str, got: f64, right: f64) {
    let error = (got / right - 1.0).abs();
    assert!(error < 2e-11, "{what} is {got:?}, not {right:?}: {error:e}");
}

#[test]
fn tables_of_the_rarer_functions() {
    for (name, function, x, right) in OF_ONE {
        if *right == 0.0 {
            assert!(function(*x).abs() < 1e-15, "{name}({x:?})");
        } else {
            assert_close(&format!("{name}({x:?})"), function(*x), *right);
        }
    }
    for (name, function, a, x, right) in OF_TWO {
        assert_close(&format!("{name}({a:?}, {x:?})"), function(*a, *x), *right);
    }
    for (n, x, right) in [
        (1, 0.5, 4.934802200544679),
        (1, -1.5, 9.379246644989124),
        (1, 5.0, 0.22132295573711533),
        (2, 0.3, -75.27253658872604),
        (3, 2.5, 0.22390584881725206),
        (2, -1.5, -0.2362040516417274),
        (4, -0.5, -3.4742498266672253),
        (1, -20.3, 15.03134603262623),
    ] {
        assert_close(&format!("polygamma({n}, {x:?})"), f64::polygamma(x, n), right);
    }
}

#[test]
fn edges_of_the_rarer_functions() {
    assert_eq!(f64::ndtri(0.0), f64::NEG_INFINITY);
    assert_eq!(f64::ndtri(1.0), f64::INFINITY);
    assert!(f64::ndtri(-0.5).is_nan() && f64::ndtri(f64::NAN).is_nan());
    assert_eq!(f64::erfcx(-30.0), f64::INFINITY);
    assert_eq!(f64::erfcx(f64::INFINITY), 0.0);
    assert_eq!(f64::k0(0.0), f64::INFINITY);
    assert!(f64::k1(-1.0).is_nan() && f64::k0(f64::NAN).is_nan());
    assert_eq!(f64::k0(f64::INFINITY), 0.0);
    assert_eq!((f64::igamma(0.0, 1.0), f64::igammac(0.0, 1.0)), (1.0, 0.0));
    assert_eq!((f64::igamma(2.0, 0.0), f64::igammac(2.0, f64::INFINITY)), (0.0, 0.0));
    assert!(f64::igamma(-1.0, 1.0).is_nan());
    assert_eq!(f64::zeta(1.0, 2.0), f64::INFINITY);
    assert!(f64::zeta(0.5, 2.0).is_nan());
    assert_eq!(f64::zeta(2.0, -3.0), f64::INFINITY);
    assert_eq!(f64::spherical_j0(0.0), 1.0);
    assert!(f64::airy_ai(f64::NAN).is_nan());
    assert_eq!(f64::airy_ai(1e300), 0.0);
    assert!(f64::airy_ai(f64::INFINITY).is_nan() && f64::j0(f64::INFINITY).is_nan());
    assert!(f64::i1(f64::NEG_INFINITY).is_nan());
    assert_eq!(0.5f64.orthogonal(Orthogonal::LegendreP, f64::INFINITY), 0.0);
}

#[test]
fn polynomials_of_low_degree() {
    let x = 0.3f64;
    for (family, right) in [
        (Orthogonal::ChebyshevT, 4.0 * x * x * x - 3.0 * x),
        (Orthogonal::ChebyshevU, 8.0 * x * x * x - 4.0 * x),
        (Orthogonal::ChebyshevV, 8.0 * x * x * x - 4.0 * x * x - 4.0 * x + 1.0),
        (Orthogonal::ChebyshevW, 8.0 * x * x * x + 4.0 * x * x - 4.0 * x - 1.0),
        (Orthogonal::HermiteH, 8.0 * x * x * x - 12.0 * x),
        (Orthogonal::HermiteHe, x * x * x - 3.0 * x),
        (Orthogonal::LaguerreL, (-x * x * x + 9.0 * x * x - 18.0 * x + 6.0) / 6.0),
        (Orthogonal::LegendreP, 0.5 * (5.0 * x * x * x - 3.0 * x)),
    ] {
        assert_close(&format!("{family:?}"), x.orthogonal(family, 3.0), right);
        assert_eq!(x.orthogonal(family, 0.0), 1.0);
        assert_eq!(x.orthogonal(family, -1.0), 0.0);
    }
    assert_close(
        "shifted",
        0.65f64.orthogonal(Orthogonal::ShiftedChebyshevT, 3.0),
        4.0 * x * x * x - 3.0 * x,
    );
}
