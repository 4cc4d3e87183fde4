// Special functions, composed of elementary ones in float64 and rounded once to the result's type.
#include <array>
#include <cmath>
#include <span>

#include "base/error.h"
#include "ops/binding.h"
#include "ops/special.h"

namespace ingot::ops {

using namespace ir;

namespace {

constexpr double pi = 3.141592653589793;

// ---- coefficients of Chebyshev polynomials in t, -1 <= t <= 1, by interpolation of the function with 50 digits. What is left out is below 1e-17 of the largest.

// exp(-x) I0(x), x = 4 (t + 1)
constexpr double i0_near[] = {0.33839763720473803,    -0.3046826723431984,     0.17162090152220877,    -0.09490109704804764,    0.04930528423967071,    -0.02373741480589947,
                              0.010546460394594998,   -0.004324309995050576,   0.0016394756169413357,  -0.0005763755745385824,  0.00018850288509584165, -5.754195010082104e-05,
                              1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,  6.046995022541919e-08,  -1.300025009986248e-08,
                              2.6598237246823866e-09, -5.189795601635263e-10,  9.675809035373237e-11,  -1.7268262914415555e-11, 2.95505266312964e-12,   -4.856446783111929e-13,
                              7.676185498604936e-14,  -1.1685332877993451e-14, 1.715391285555133e-15,  -2.431279846547955e-16,  3.3307945188222384e-17, -4.4153416464793395e-18};
// exp(-x) sqrt(x) I0(x), x = 16 / (t + 1)
constexpr double i0_far[] = {0.4022452055070544,      0.0033691164782556943,   6.889758346916825e-05,  2.8913705208347567e-06, 2.0489185894690638e-07,
                             2.266668990498178e-08,   3.3962320257083865e-09,  4.94060238822497e-10,   1.1889147107846439e-11, -3.1499165279632416e-11,
                             -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,  3.8527783827421426e-13, 1.54008621752141e-14,
                             -4.150569347287222e-14,  -9.554846698828307e-15,  3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
                             -2.8276239805165836e-16, 3.461222867697461e-17,   4.46562142029676e-17,   -4.830504485944182e-18, -7.233180487874754e-18};
// exp(-x) I1(x) / x, x = 4 (t + 1)
constexpr double i1_near[] = {0.12629359322181682,    -0.17641651835783406,    0.1026436586898471,     -0.05294598120809499,    0.024726449030626516,  -0.010564084894626197,
                              0.004156422944312888,   -0.0015135724506312532,  0.0005122859561685758,  -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05,
                              3.4702513081376785e-06, -8.568720264695455e-07,  2.0032947535521353e-07, -4.445059128796328e-08,  9.381537386495773e-09, -1.8872497517228294e-09,
                              3.625590281552117e-10,  -6.663489723502027e-11,  1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14,
                              7.600684294735408e-15,  -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,  2.7779141127610464e-18};
// exp(-x) sqrt(x) I1(x), x = 16 / (t + 1)
constexpr double i1_far[] = {0.38928811750914005,     -0.009761097491361469,  -0.00011058893876262371, -3.882564808877691e-06,  -2.512236237870209e-07,
                             -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,  -1.8974958123505413e-11, 3.2526035830154884e-11,
                             1.4125807436613782e-11,  2.0356285441470896e-12, -7.198551776245908e-13,  -4.0835511110921974e-13, -2.1015418427726643e-14,
                             4.272440016711951e-14,   1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
                             2.96262899764595e-16,    -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,   7.517296310842105e-18};
// K0(x) + log(x / 2) I0(x), x = sqrt(2 (t + 1))
constexpr double k0_near[] = {-0.2676636966169514,    0.3442898999246285,    0.0359799365153615,     0.001264615411446926,   2.286212103119452e-05,
                              2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11, 4.2598161427910826e-14, 1.3744654358807508e-16};
// exp(x) sqrt(x) K0(x), x = 4 / (t + 1)
constexpr double k0_far[] = {1.2201515410329777,     -0.0314481013119645,    0.0015698838857300533,  -0.00012849549581627802, 1.39498137188765e-05,   -1.8317555227191195e-06,
                             2.766813639445015e-07,  -4.660489897687948e-08, 8.574034017414225e-09,  -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
                             1.8559491149549264e-11, -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,  -2.2275133267462965e-14,
                             6.340076476276646e-15,  -1.848593377920907e-15, 5.5120559994043335e-16, -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17};
// x (K1(x) - log(x / 2) I1(x)), x = sqrt(2 (t + 1))
constexpr double k1_near[] = {0.7626501136694739,      -0.3531559607765449,    -0.12261118082265715,    -0.006975723859639864,  -0.0001730288957513052,
                              -2.4334061415659684e-06, -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13, -2.427449850519366e-15};
// exp(x) sqrt(x) K1(x), x = 4 / (t + 1)
constexpr double k1_far[] = {1.3603130952422213,      0.10392373657681724,    -0.002857816859622779,   0.00019521551847135162, -1.936197974166083e-05,  2.406484947837217e-06,
                             -3.5019606030878126e-07, 5.7410841254500495e-08, -1.0345762465678097e-08, 2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11,
                             -2.129967838427791e-11,  5.139639673482343e-12,  -1.2891739609498229e-12, 3.348419666052243e-13,  -8.976705182010146e-14,  2.4771544242195988e-14,
                             -7.0198370892147685e-15, 2.038703166239861e-15,  -6.057047270643018e-16,  1.8380935752430455e-16, -5.689462849193648e-17,  1.7940510478863572e-17};
// J0(x), x = sqrt(32 (t + 1))
constexpr double j0_near[] = {0.15772797147489012,   -0.008723442352852221,   0.2651786132033368,    -0.37009499387264977,    0.15806710233209725,   -0.034893769411408884,
                              0.004819180069467605,  -0.00046062616620627504, 3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
                              7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,  1.2218515873961411e-17};
// J1(x) / x
constexpr double j1_near[] = {0.08104484632565812,   -0.1489751450676521,    0.1609992623572097,     -0.08268049176681791,   0.022213639654966037,  -0.003646940600769276,
                              0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
                              3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17};
// Y0(x) - 2 / pi log(x) J0(x)
constexpr double y0_near[] = {-0.03314611320328494,    -0.2744743055297453,   0.17903431407718268,    0.26156734625504663,    -0.17730201278114358,   0.04719668959576339,
                              -0.007287962479552079,   0.0007531135932577742, -5.632079141056987e-05, 3.206532537654801e-06,  -1.44072332740187e-07,  5.248794787330516e-09,
                              -1.5837552541812015e-10, 4.02633081830612e-12,  -8.747341203310769e-14, 1.6434898714919468e-15, -2.6977881152566837e-17};
// (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x
constexpr double y1_near[] = {0.0025380132357417816,   -0.01608717304766875,  -0.09591204536083074,    0.08445197259652346,    -0.028328123944594365, 0.005289897544167113,
                              -0.0006414551451326356,  5.505982873338744e-05, -3.53808001868935e-06,   1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10,
                              -6.4651518414115946e-12, 1.51429151205002e-13,  -3.0511859694473254e-15, 5.34668038572867e-17};
// P and x Q of sqrt(pi x / 2) (J0 + i Y0) = (P + i Q) exp(i (x - pi / 4)), x = 8 / sqrt((t + 1) / 2)
constexpr double p0[] = {0.9994603493475187,    -0.0005365220468132117,  3.0751847875194745e-06,  -5.1705945376060975e-08, 1.6306464635151382e-09,
                         -7.86409137723707e-11, 5.168262387349193e-12,   -4.3045788699253914e-13, 4.3265957431549404e-14,  -5.069034095935236e-15,
                         6.748072215733873e-16, -1.0011513723467786e-16, 1.6305919233744186e-17};
constexpr double q0[] = {-0.12444683684269607,  0.0005470815954089319,  -5.9315987288485175e-06, 1.4377965798375193e-07,  -5.817532749493056e-09,
                         3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,   -2.6690625482579414e-13, 3.4041800321963686e-14,
                         -4.87994410531204e-15, 7.729703176242605e-16,  -1.3348852171502517e-16, 2.4865952389390515e-17,  -4.952892629886516e-18};
// the same of J1 and Y1, whose phase is 3 pi / 4
constexpr double p1[] = {1.0009030408600137,     0.0008989898330859408,  -3.987284300488908e-06, 6.177633960644299e-08,   -1.8718907491063067e-09,
                         8.816898659582339e-11,  -5.704863640395645e-12, 4.699195515230542e-13,  -4.6842237839904895e-14, 5.452674896044717e-15,
                         -7.221180842274018e-16, 1.0667689114335412e-16, -1.7312313216116335e-17};
constexpr double q1[] = {0.3742222965562826,     -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07, 6.583354662120443e-09,
                         -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12,  2.8774212663332235e-13, -3.649001916061838e-14,
                         5.206626366226707e-15,  -8.215318025458595e-16, 1.4141084390211833e-16, -2.626761589838529e-17, 5.2192649196714085e-18};
// (1 + 2 x) exp(x^2) erfc(x), x = 3.75 (1 + t) / (1 - t)
constexpr double erfcx[] = {1.1775789345674017,     -0.004590054580646478,   -0.08424913336651792,    0.05920993999819189,    -0.026658668435305753,
                            0.009074997670705265,   -0.002413163540417608,   0.0004907758365258086,   -6.916973302501207e-05, 4.13902798607301e-06,
                            7.74038306619849e-07,   -2.1886401049234397e-07, 1.076499946567091e-08,   4.521959811218287e-09,  -7.754400208831351e-10,
                            -6.318088340886684e-11, 2.86879501093067e-11,    1.9455868545777347e-13,  -9.65469674843344e-13,  3.25254814814874e-14,
                            3.3478119482868056e-14, -1.864562880419313e-15,  -1.2507950530688648e-15, 7.418235256624044e-17,  5.068148904796111e-17};

// The sum of c[k] T_k(t), by Clenshaw's recurrence.
Value chebyshev(const Value& t, std::span<const double> c) {
  const Value twice = t * 2.0;
  Value next = t * 0.0 + c.back(), after = t * 0.0;
  for (size_t k = c.size() - 1; k-- > 1;) {
    const Value here = twice * next - after + c[k];
    after = next;
    next = here;
  }
  return t * next - after + c[0];
}

Value in_double(const Value& x) { return cast(to_float(x), DType::f64); }

// A function of one number, in float64; the result has the operand's type, float32 for integers.
template <class F>
Value of_one(const Value& x, F f) {
  return cast(f(in_double(x)), float_type(x.dtype()));
}

// The same of functions that torch has for float32 and float64 only.
template <class F>
Value of_wide(const Value& x, F f) {
  if (is_float(x.dtype()) && size_of(x.dtype()) == 2) fail(Code::unsupported, "torch has no {} of this function", name_of(x.dtype()));
  return of_one(x, f);
}

// ---- modified Bessel functions (Abramowitz and Stegun, chapter 9)

constexpr double i_near = 8, k_near = 2;

Value scaled_i0(const Value& x) {
  const Value a = abs(x), near = minimum(a, i_near), far = maximum(a, i_near);
  return select(a <= i_near, chebyshev(near / 4.0 - 1.0, i0_near), chebyshev(16.0 / far - 1.0, i0_far) / sqrt(far));
}

Value scaled_i1(const Value& x) {
  const Value a = abs(x), near = minimum(a, i_near), far = maximum(a, i_near);
  const Value y = select(a <= i_near, chebyshev(near / 4.0 - 1.0, i1_near) * near, chebyshev(16.0 / far - 1.0, i1_far) / sqrt(far));
  return ir::map(Op::copysign, {y, x});
}

Value i0(const Value& x) { return exp(abs(x)) * scaled_i0(x); }
Value i1(const Value& x) { return exp(abs(x)) * scaled_i1(x); }

// K0 or K1, times exp(x) or not. They are infinite at 0 and nan below.
Value modified_bessel_k(const Value& x, bool first, bool scaled) {
  const Value small = clamp(x, Operand(0.0), Operand(k_near)), large = maximum(x, k_near), logarithm = log(small / 2.0), t = square(small) / 2.0 - 1.0;
  const Value near = first ? chebyshev(t, k1_near) / small + logarithm * i1(small) : chebyshev(t, k0_near) - logarithm * i0(small);
  const Value far = chebyshev(4.0 / large - 1.0, first ? std::span<const double>(k1_far) : std::span<const double>(k0_far)) / sqrt(large);
  const Value y = select(x <= k_near, scaled ? near * exp(small) : near, scaled ? far : far * exp(-large));
  return select(equal(x, 0.0), INFINITY, select(x < 0.0, NAN, select(equal(x, INFINITY), 0.0, y)));
}

// ---- Bessel functions of order 0 and 1

constexpr double j_near = 8;

// sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase)), or with sin and cos for the second kind. The phase is pi / 4, or 3 pi / 4 for order 1.
Value bessel_far(const Value& x, bool order_1, bool second_kind) {
  const Value t = 128.0 / square(x) - 1.0, s = sin(x), c = cos(x);
  const Value p = order_1 ? chebyshev(t, p1) : chebyshev(t, p0), q = (order_1 ? chebyshev(t, q1) : chebyshev(t, q0)) / x;
  const Value cosine = (order_1 ? s - c : s + c) * M_SQRT1_2, sine = (order_1 ? -(s + c) : s - c) * M_SQRT1_2;
  return sqrt(2.0 / pi / x) * (second_kind ? p * sine + q * cosine : p * cosine - q * sine);
}

Value bessel_j(const Value& x, bool order_1) {
  const Value a = abs(x), near = minimum(a, j_near), t = square(near) / 32.0 - 1.0;
  const Value y = select(a <= j_near, order_1 ? chebyshev(t, j1_near) * near : chebyshev(t, j0_near), bessel_far(maximum(a, j_near), order_1, false));
  return order_1 ? select(x < 0.0, -y, y) : y;
}

Value bessel_y(const Value& x, bool order_1) {
  const Value near = clamp(x, Operand(0.0), Operand(j_near)), t = square(near) / 32.0 - 1.0, logarithm = log(near) * (2.0 / pi);
  const Value small = order_1 ? chebyshev(t, y1_near) * near + logarithm * bessel_j(near, true) - 2.0 / pi / near : chebyshev(t, y0_near) + logarithm * bessel_j(near, false);
  return select(equal(x, 0.0), -INFINITY, select(x < 0.0, NAN, select(x <= j_near, small, bessel_far(maximum(x, j_near), order_1, true))));
}

// ---- of the normal distribution

// exp(x^2) erfc(x) (the expansion of Shepherd and Laframboise, Mathematics of Computation 36, 1981).
Value scaled_erfc(const Value& x) {
  const Value a = abs(x), y = select(equal(a, INFINITY), 0.0, chebyshev((a - 3.75) / (a + 3.75), erfcx) / (a * 2.0 + 1.0));
  return select(x < 0.0, exp(square(x)) * 2.0 - y, y);
}

Value log_of_normal(const Value& x) {
  const Value t = x * M_SQRT1_2;
  return select(x < -1.0, log(scaled_erfc(-t) / 2.0) - square(t), log1p(erfc(t) * -0.5));
}

Value polynomial(const Value& x, std::span<const double> c) {
  Value y = x * 0.0 + c.back();
  for (size_t k = c.size() - 1; k-- > 0;) y = y * x + c[k];
  return y;
}

// The number below which a normal variable is with probability p (Wichura's PPND16, Applied Statistics 37, 1988, algorithm AS 241).
Value normal_quantile(const Value& p) {
  constexpr std::array centre{3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
                              4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr std::array centre_below{1.0,
                                    4.2313330701600911252e1,
                                    6.8718700749205790830e2,
                                    5.3941960214247511077e3,
                                    2.1213794301586595867e4,
                                    3.9307895800092710610e4,
                                    2.8729085735721942674e4,
                                    5.2264952788528545610e3};
  constexpr std::array middle{1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
                              1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr std::array middle_below{1.0,
                                    2.05319162663775882187e0,
                                    1.67638483018380384940e0,
                                    6.89767334985100004550e-1,
                                    1.48103976427480074590e-1,
                                    1.51986665636164571966e-2,
                                    5.47593808499534494600e-4,
                                    1.05075007164441684324e-9};
  constexpr std::array tail{6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
                            2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr std::array tail_below{1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  constexpr double near_centre = 0.425, far = 5;
  const Value q = p - 0.5, r = near_centre * near_centre - square(q), s = sqrt(-log(select(q < 0.0, p, 1.0 - p)));
  auto ratio = [](const Value& at, std::span<const double> above, std::span<const double> below) { return polynomial(at, above) / polynomial(at, below); };
  const Value outside = select(s <= far, ratio(s - 1.6, middle, middle_below), ratio(s - far, tail, tail_below));
  const Value y = select(abs(q) <= near_centre, q * ratio(r, centre, centre_below), select(q < 0.0, -outside, outside));
  return select(equal(p, 0.0), -INFINITY, select(equal(p, 1.0), INFINITY, y));
}

// ---- zeta and polygamma

// The sum of (q + k)^-s over k = 0, 1, .. for q > 0, by the formula of Euler and Maclaurin after ten terms.
Value hurwitz(const Value& order, const Value& q) {
  constexpr int64_t terms = 10;
  const Value s = minimum(order, 1e10);  // from there on it is 0, 1 or infinite; the terms of an infinite order would be NaN
  // Bernoulli's number B(2 j) over (2 j)!
  constexpr std::array bernoulli{1.0 / 12,
                                 -1.0 / 720,
                                 1.0 / 30240,
                                 -1.0 / 1209600,
                                 1.0 / 47900160,
                                 -691.0 / 1307674368000,
                                 1.0 / 74724249600,
                                 -3617.0 / 10670622842880000,
                                 43867.0 / 5109094217170944000,
                                 -174611.0 / 802857662698291200000.0};
  auto power = [&](const Value& base) { return ir::map(Op::pow, {base, -s}); };
  const Value first = power(q);
  Value y = first;
  for (int64_t k = 1; k < terms; ++k) y = y + power(q + static_cast<double>(k));
  const Value a = q + static_cast<double>(terms), last = power(a), squared = square(a);
  y = y + last * a / (s - 1.0) + last * 0.5;
  Value factor = s * last / a;  // s (s + 1) .. (s + 2 j - 2) a^(-s - 2 j + 1)
  for (size_t j = 0; j < bernoulli.size(); ++j) {
    y = y + factor * bernoulli[j];
    const double k = 2.0 * static_cast<double>(j);
    factor = factor * (s + (k + 1)) * (s + (k + 2)) / squared;
  }
  return select(equal(first, INFINITY), first, y);
}

// For q < 0 the powers of whole s have signs: those of q + k < 0 are a finite sum, the difference of two infinite ones.
Value zeta(const Value& s, const Value& q) {
  const Value whole = floor(q), positive = select(q > 0.0, q, q - whole);
  const Value nearest = select(q > 0.0, 1.0, whole + 1.0 - q), sign = select(equal(ir::map(Op::mod, {s, 2.0}), 0.0), 1.0, -1.0);
  const Value below = (hurwitz(s, nearest) - hurwitz(s, select(q > 0.0, 1.0, 1.0 - q))) * sign;
  const Value y = hurwitz(s, select(equal(positive, 0.0), 1.0, positive)) + select(q > 0.0, 0.0, below);
  const Value at_poles = select(equal(q, whole), INFINITY, select(equal(s, floor(s)), y, NAN));
  return select(equal(s, 1.0), INFINITY, select(s < 1.0, NAN, select(q > 0.0, y, at_poles)));
}

// As eager has it, with large numbers at the poles: six terms and the beginning of the asymptotic expansion (Abramowitz and Stegun, 6.4.6, 6.4.7 and 6.4.12).
Value trigamma(const Value& v) {
  const Value reflected = v < 0.5, x = select(reflected, 1.0 - v, v);
  Value y = 1.0 / square(x);
  for (double k = 1; k < 6; ++k) y = y + 1.0 / square(x + k);
  const Value a = x + 6.0, i = 1.0 / square(a);
  y = y + (1.0 + 0.5 / a + i * (1.0 / 6 - i * (1.0 / 30 - i * (1.0 / 42)))) / a;
  return select(reflected, square(pi / sin(v * pi)) - y, y);
}

Value polygamma(const Value& x, int64_t n) {
  if (n < 0) fail(Code::unsupported, "polygamma of order {}", n);
  if (n == 0) return digamma(x);
  return of_one(x, [&](const Value& v) {
    if (n == 1) return trigamma(v);
    const Value order = literal(v.graph(), static_cast<double>(n + 1), DType::f64);
    return zeta(order, v) * ((n % 2 == 1 ? 1 : -1) * std::tgamma(static_cast<double>(n + 1)));
  });
}

// ---- gamma of several dimensions, and polynomials

Value multivariate_lgamma(const Value& x, int64_t p) {
  if (p < 1) fail(Code::unsupported, "mvlgamma of {} dimensions", p);
  return of_one(x, [&](const Value& v) {
    Value y = lgamma(v);
    for (int64_t j = 1; j < p; ++j) y = y + lgamma(v - 0.5 * static_cast<double>(j));
    return y + static_cast<double>(p * (p - 1)) / 4 * std::log(pi);
  });
}

// The polynomial of degree n: the first two are 1 and `first`, each other follows from the two before it.
template <class First, class Next>
Value orthogonal(const Value& x, const Scalar& degree, First first, Next next) {
  constexpr int64_t max_degrees = 64;
  const int64_t n = degree.is_float() ? static_cast<int64_t>(degree.to_double()) : degree.to_int();
  if (n > max_degrees) fail(Code::unsupported, "a polynomial of degree {}; at most {} are written out", n, max_degrees);
  return of_wide(x, [&](const Value& v) {
    const auto all = [&](double number) { return full(v.graph(), v.dims(), number, v.dtype()); };
    if (n < 1) return all(n == 0 ? 1 : 0);
    Value before = all(1), here = first(v);
    for (int64_t k = 1; k < n; ++k) {
      const Value after = next(v, here, before, static_cast<double>(k));
      before = here;
      here = after;
    }
    return here;
  });
}

// The four kinds differ in the polynomial of degree 1. The shifted ones are on the interval from 0 to 1.
template <class First>
Value chebyshev_polynomial(const Value& x, const Scalar& degree, First first, bool shifted) {
  auto at = [shifted](const Value& v) { return shifted ? v * 2.0 - 1.0 : v; };
  return orthogonal(
      x, degree, [&](const Value& v) { return first(at(v)); }, [&](const Value& v, const Value& here, const Value& before, double) { return at(v) * 2.0 * here - before; });
}

const Definition special_rows[] = {
    {"{i0,special_i0}(Tensor self)", [](Value x) { return of_one(x, i0); }},
    {"special_i1(Tensor self)", [](Value x) { return of_one(x, i1); }},
    {"special_modified_bessel_i0(Tensor self)", [](Value x) { return of_wide(x, i0); }},
    {"special_modified_bessel_i1(Tensor self)", [](Value x) { return of_wide(x, i1); }},
    {"special_i0e(Tensor self)", [](Value x) { return of_one(x, scaled_i0); }},
    {"special_i1e(Tensor self)", [](Value x) { return of_one(x, scaled_i1); }},
    {"special_modified_bessel_k0(Tensor self)", [](Value x) { return of_wide(x, [](const Value& v) { return modified_bessel_k(v, false, false); }); }},
    {"special_modified_bessel_k1(Tensor self)", [](Value x) { return of_wide(x, [](const Value& v) { return modified_bessel_k(v, true, false); }); }},
    {"special_scaled_modified_bessel_k0(Tensor x)", [](Value x) { return of_wide(x, [](const Value& v) { return modified_bessel_k(v, false, true); }); }},
    {"special_scaled_modified_bessel_k1(Tensor x)", [](Value x) { return of_wide(x, [](const Value& v) { return modified_bessel_k(v, true, true); }); }},
    {"special_bessel_j0(Tensor self)", [](Value x) { return of_wide(x, [](const Value& v) { return bessel_j(v, false); }); }},
    {"special_bessel_j1(Tensor self)", [](Value x) { return of_wide(x, [](const Value& v) { return bessel_j(v, true); }); }},
    {"special_bessel_y0(Tensor self)", [](Value x) { return of_wide(x, [](const Value& v) { return bessel_y(v, false); }); }},
    {"special_bessel_y1(Tensor self)", [](Value x) { return of_wide(x, [](const Value& v) { return bessel_y(v, true); }); }},
    {"special_spherical_bessel_j0(Tensor x)",
     [](Value x) { return of_wide(x, [](const Value& v) { return select(ir::map(Op::is_inf, {v}), 0.0, select(equal(v, 0.0), 1.0, sin(v) / v)); }); }},
    {"special_erfcx(Tensor self)", [](Value x) { return of_wide(x, scaled_erfc); }},
    {"special_log_ndtr(Tensor self)", [](Value x) { return of_wide(x, log_of_normal); }},
    {"special_ndtri(Tensor self)", [](Value x) { return of_wide(x, normal_quantile); }},
    {"special_zeta.{,other_scalar,self_scalar}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::floats,
     [](Value s, Value q) { return of_wide(s, [&](const Value& wide) { return zeta(wide, in_double(q)); }); }},
    {"{igamma,special_gammainc}(Tensor self, Tensor other)", Types::only_floats, [](Value a, Value x) { return ir::map(Op::gammainc, {a, x}); }},
    {"{igammac,special_gammaincc}(Tensor self, Tensor other)", Types::only_floats, [](Value a, Value x) { return ir::map(Op::gammaincc, {a, x}); }},
    {"{polygamma,special_polygamma}(int n, Tensor self)", [](int64_t n, Value x) { return polygamma(x, n); }},
    {"{mvlgamma,special_multigammaln}(Tensor self, int p)", Types::numbers, [](Value x, int64_t p) { return multivariate_lgamma(x, p); }},
    {"special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n)", [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v; }, false); }},
    {"special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n)", [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v; }, true); }},
    {"special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n)", [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v * 2.0; }, false); }},
    {"special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v * 2.0; }, true); }},
    {"special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v * 2.0 - 1.0; }, false); }},
    {"special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v * 2.0 - 1.0; }, true); }},
    {"special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v * 2.0 + 1.0; }, false); }},
    {"special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) { return chebyshev_polynomial(x, n, [](const Value& v) { return v * 2.0 + 1.0; }, true); }},
    {"special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) {
       return orthogonal(
           x, n, [](const Value& v) { return v * 2.0; }, [](const Value& v, const Value& here, const Value& before, double k) { return v * 2.0 * here - before * (2 * k); });
     }},
    {"special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) {
       return orthogonal(x, n, [](const Value& v) { return v; }, [](const Value& v, const Value& here, const Value& before, double k) { return v * here - before * k; });
     }},
    {"special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) {
       return orthogonal(
           x, n, [](const Value& v) { return 1.0 - v; },
           [](const Value& v, const Value& here, const Value& before, double k) { return ((2 * k + 1 - v) * here - before * k) / (k + 1); });
     }},
    {"special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n)",
     [](Value x, Scalar n) {
       return orthogonal(
           x, n, [](const Value& v) { return v; },
           [](const Value& v, const Value& here, const Value& before, double k) { return (v * (2 * k + 1) * here - before * k) / (k + 1); });
     }},
};

}  // namespace

Value bessel_i0(const Value& x) { return i0(x); }

std::span<const Definition> special_definitions() { return special_rows; }

}  // namespace ingot::ops
