// Asks PyTorch's libc10 what c10-core's tests compare with; README.md says how to build it.
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

using namespace c10;

static const std::vector<ScalarType> TYPES = {
    kByte, kChar, kShort, kInt, kLong, kHalf, kFloat, kDouble, kComplexHalf, kComplexFloat, kComplexDouble,
    kBool, kBFloat16, kFloat8_e5m2, kFloat8_e4m3fn, kUInt16, kUInt32, kUInt64, ScalarType::BComplex32};

static std::string name(ScalarType t) { return std::string(getDtypeNames(t).first); }

// One line a type: number, c10 name, torch name, alias, bytes, five categories, real and complex type.
static void types(std::ostream& out) {
  for (auto t : TYPES) {
    auto alias = getDtypeNames(t).second;
    std::string complex;
    try {
      complex = name(toComplexType(t));
    } catch (const Error&) {
      complex = "error";
    }
    out << int(t) << ' ' << toString(t) << ' ' << name(t) << ' ' << (alias.empty() ? "-" : alias) << ' '
        << elementSize(t) << ' ' << isIntegralType(t, false) << isIntegralType(t, true) << isFloatingType(t)
        << isComplexType(t) << isSignedType(t) << isReducedFloatingType(t) << isFloat8Type(t) << ' '
        << name(toRealValueType(t)) << ' ' << complex << '\n';
  }
}

// One line an ordered pair: a, b, the promoted type, whether a can be cast to b.
static void promote(std::ostream& out) {
  for (auto a : TYPES)
    for (auto b : TYPES) {
      std::string result;
      try {
        result = name(promoteTypes(a, b));
      } catch (const Error&) {
        result = "error";
      }
      out << name(a) << ' ' << name(b) << ' ' << result << ' ' << canCast(a, b) << '\n';
    }
}

// The bits of an element, low byte last.
template <typename T> static std::string bits(T value) {
  unsigned char bytes[sizeof(T)];
  __builtin_memcpy(bytes, &value, sizeof(T));
  std::string text;
  for (size_t i = sizeof(T); i-- > 0;) {
    char two[3];
    std::snprintf(two, 3, "%02x", bytes[i]);
    text += two;
  }
  return text;
}

template <typename T> static std::string converted(const Scalar& s) {
  try {
    return bits(s.to<T>());
  } catch (const std::exception&) {
    return "error";
  }
}

static void line(std::ostream& out, const std::string& text, const Scalar& s) {
  out << text << ' ' << converted<uint8_t>(s) << ' ' << converted<int8_t>(s) << ' ' << converted<int16_t>(s) << ' '
      << converted<int32_t>(s) << ' ' << converted<int64_t>(s) << ' ' << converted<Half>(s) << ' '
      << converted<float>(s) << ' ' << converted<double>(s) << ' ' << converted<complex<Half>>(s) << ' '
      << converted<complex<float>>(s) << ' ' << converted<complex<double>>(s) << ' ' << converted<bool>(s) << ' '
      << converted<BFloat16>(s) << ' ' << converted<Float8_e5m2>(s) << ' ' << converted<Float8_e4m3fn>(s) << ' '
      << converted<uint16_t>(s) << ' ' << converted<uint32_t>(s) << ' ' << converted<uint64_t>(s) << ' '
      << converted<complex<BFloat16>>(s) << '\n';
}

static std::string hex(double d) { return bits(d); }

// One line a scalar: the value, then its conversion to each type in the order of TYPES.
static void scalars(std::ostream& out) {
  line(out, "b:0", Scalar(false));
  line(out, "b:1", Scalar(true));
  for (int64_t i : {int64_t(0), int64_t(1), int64_t(-1), int64_t(127), int64_t(128), int64_t(-128), int64_t(-129),
                    int64_t(255), int64_t(256), int64_t(-255), int64_t(-256), int64_t(448), int64_t(449),
                    int64_t(32767), int64_t(32768), int64_t(57344), int64_t(57345), int64_t(65504), int64_t(65505),
                    int64_t(65535), int64_t(65536), int64_t(-65535), int64_t(-65536), int64_t(16777217),
                    int64_t(2147483647), int64_t(2147483648), int64_t(-2147483649), int64_t(4294967295),
                    int64_t(4294967296), int64_t(-4294967295), int64_t(9007199254740993),
                    std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()})
    line(out, "i:" + std::to_string(i), Scalar(i));
  for (uint64_t u : {uint64_t(1) << 63, (uint64_t(1) << 63) + 1025, std::numeric_limits<uint64_t>::max()})
    line(out, "u:" + std::to_string(u), Scalar(u));
  const double inf = std::numeric_limits<double>::infinity();
  for (double d : {0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 0.1, 127.9, 128.0, -128.0, -128.5, -129.0, 255.9, 256.0, 447.0,
                   448.0, 448.1, 464.0, 57344.0, 57345.0, 61440.0, 65504.0, 65505.0, 65519.9, 65520.0, 1e-8, 1e-40, 1e-320,
                   2147483647.5, 2147483648.0, 4294967295.5, 4294967296.0, 3.4028234663852886e38,
                   3.4028235e38, 3.3895313892515355e38, 3.39e38, 1e300, 9223372036854774784.0, 9223372036854775808.0,
                   -9223372036854775808.0, 18446744073709549568.0, 18446744073709551616.0, 1.0004887580871582,
                   1.00048828125, 1.0009765625000002, inf, -inf})
    line(out, "d:" + hex(d), Scalar(d));
  line(out, "d:nan", Scalar(std::nan("")));
  for (auto z : {complex<double>(1.5, 0.0), complex<double>(1.5, -0.0), complex<double>(1.0, 2.0),
                 complex<double>(0.0, 2.0), complex<double>(70000.0, 1.0), complex<double>(1.0, 1e39),
                 complex<double>(inf, 0.0), complex<double>(300.0, 0.0), complex<double>(0.1, 0.2)})
    line(out, "z:" + hex(z.real()) + "," + hex(z.imag()), Scalar(z));
}

// FNV-1a over the bytes that `from` gives for a set of floats: each upper half of the bits, with lower
// halves at and around the points where rounding turns.
template <typename From> static uint64_t checksum(From from) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      hash = (hash ^ from(std::bit_cast<float>(high << 16 | low))) * 0x100000001b3;
    }
  return hash;
}

static void float8(std::ostream& out) {
  out << "checksum " << std::hex << checksum([](float f) { return Float8_e5m2(f).x; }) << ' '
      << checksum([](float f) { return Float8_e4m3fn(f).x; }) << '\n';
  for (int i = 0; i < 256; ++i)
    out << bits(uint8_t(i)) << ' ' << bits(float(Float8_e5m2(uint8_t(i), Float8_e5m2::from_bits()))) << ' '
        << bits(float(Float8_e4m3fn(uint8_t(i), Float8_e4m3fn::from_bits()))) << '\n';
}

int main() {
  std::ofstream a("types.txt"), b("promote.txt"), c("scalar.txt"), d("float8.txt");
  types(a);
  promote(b);
  scalars(c);
  float8(d);
}
