// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x) in double, for C++ and CUDA. INGOT_FUNCTION: how such a function is declared.
// Numbers in brackets are equations of the NIST Digital Library of Mathematical Functions, chapters 5 and 8. What is left out is below 1e-17 of the result.

// m - log(1 + m), where m = x / a - 1: half the square of Temme's eta [8.12.1]. Near 0, without cancellation, by the series of the inverse hyperbolic tangent.
INGOT_FUNCTION double gamma_distance(double a, double x) {
  const double m = (x - a) / a;
  if (m < -0.5) return m - ::log(x / a);  // of which 1 + m has too few digits
  if (m < -0.3 || m > 0.3) return m - ::log1p(m);
  const double r = m / (2 + m), z = r * r;
  const double series = 1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13 + z * (1.0 / 15 + z * (1.0 / 17 + z * (1.0 / 19 + z / 21))))))));
  return r * m - 2 * r * z * series;
}

// 1 / Gamma(a + 1) for 0 <= a < 10: the power series [5.7.1] of the fraction, and the recurrence.
INGOT_FUNCTION double gamma_reciprocal(double a) {
  constexpr double coefficients[] = {
      1.0, 0.5772156649015329, -0.6558780715202539, -0.04200263503409524, 0.16653861138229148, -0.04219773455554433, -0.009621971527876973,
      0.0072189432466631, -0.0011651675918590652, -0.00021524167411495098, 0.0001280502823881162, -2.013485478078824e-05, -1.2504934821426706e-06,
      1.133027231981696e-06, -2.056338416977607e-07, 6.116095104481416e-09, 5.002007644469223e-09, -1.18127457048702e-09, 1.0434267116911005e-10,
      7.782263439905071e-12, -3.696805618642206e-12, 5.100370287454476e-13, -2.0583260535665066e-14, -5.348122539423018e-15, 1.2267786282382608e-15};
  double product = 1, sum = 0;
  for (; a >= 1; --a) product *= a;
  for (int k = sizeof coefficients / sizeof *coefficients; k-- > 0;) sum = sum * a + coefficients[k];
  return sum / product;
}

// x^a exp(-x) / Gamma(a + 1). From a = 10 on the gamma function is Stirling's series [5.11.1].
INGOT_FUNCTION double gamma_density(double a, double x) {
  constexpr double no_more = 800;  // where x^10 exp(-x) is 0 in double
  if (a < 10) return x > no_more ? 0 : ::pow(x, a) * ::exp(-x) * gamma_reciprocal(a);
  const double z = 1 / (a * a);
  const double stirling = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * (691.0 / 360360 - z / 156)))))) / a;
  return ::exp(-a * gamma_distance(a, x) - stirling) / ::sqrt(6.283185307179586477 * a);
}

// P by its power series [8.11.4], for x below a + 1.
INGOT_FUNCTION double gamma_series(double a, double x) {
  double term = 1, sum = 1;
  for (double k = a + 1; term > sum * 1e-17; ++k) {
    term *= x / k;
    sum += term;
  }
  return gamma_density(a, x) * sum;
}

// Q by its continued fraction [8.9.2] with the even part taken, for x above a + 1: numerators and denominators by their recurrence [1.12.5].
INGOT_FUNCTION double gamma_fraction(double a, double x) {
  constexpr int between = 4;  // convergents, of which the last is compared with the one before
  constexpr double large = 1e150;
  const double density = gamma_density(a, x);
  if (density == 0) return 0;
  double b = x + 1 - a, p = 1, q = b, p_before = 0, q_before = 1, y = 1 / b;
  for (double k = 1; k < 1000;) {
    for (int n = 0; n < between; ++n, ++k) {
      const double by = k * (a - k);
      b += 2;
      const double next_p = b * p + by * p_before, next_q = b * q + by * q_before;
      p_before = p, q_before = q, p = next_p, q = next_q;
    }
    const double before = y;
    y = p / q;
    if (::fabs(y - before) <= 1e-16 * ::fabs(y)) break;
    if (::fabs(q) > large) p /= large, q /= large, p_before /= large, q_before /= large;
  }
  return density * a * y;
}

// log Gamma(1 + a) for 0 <= a <= 0.5 [5.7.3].
INGOT_FUNCTION double log_gamma_of_next(double a) {
  constexpr double coefficients[] = {
      0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986, 0.0028905103307415234, -0.001192753911703261,
      0.0005096695247430425, -0.00022315475845357939, 9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06,
      4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07, 2.1207184805554665e-07, -1.0043224823968099e-07,
      4.7698101693639804e-08, -2.2711094608943164e-08, 1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09,
      5.731367241678862e-10};
  double sum = 0;
  for (int k = sizeof coefficients / sizeof *coefficients; k-- > 0;) sum = (sum + coefficients[k]) * a;
  return a * (0.42278433509846713939 + sum) - ::log1p(a);
}

// Q for small a, where P is near 1: from the series of the lower function [8.7.1], without its first term's distance from 1.
INGOT_FUNCTION double gamma_near_one(double a, double x) {
  const double power = a * ::log(x) - log_gamma_of_next(a);
  double term = 1, sum = 0;
  for (double k = 1; k < 30; ++k) {
    term *= -x / k;
    sum += term / (a + k);
  }
  return -::expm1(power) - ::exp(power) * a * sum;
}

// Q, or P, for large a and x near a: Temme's uniform expansion [8.12.3, 8.12.4, 8.12.7]. Coefficient n of c_k is that of eta^n in [8.12.11], by the recurrence of
// the powers of eta in mu [8.12.1]; they hold from a = 40 on, for 0.7 a <= x <= 1.3 a.
INGOT_FUNCTION double gamma_uniform(double a, double x, bool upper) {
  constexpr int terms[] = {15, 13, 13, 11, 10, 8, 6, 4, 2};
  constexpr double coefficients[] = {
      -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
      3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
      1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
      -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
      4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08, 1.1951628599778148e-08, 0.004133597883597883, -0.0026813271604938273,
      0.0007716049382716049, 2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
      1.3721957309062934e-06, -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10, -1.409252991086752e-08, 0.0006494341563786008,
      0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05,
      -5.6749528269915965e-06, 1.4230900732435883e-06, -2.7861080291528143e-11, -1.6958404091930278e-07, -0.0008618882909167117, 0.0007840392217200666,
      -0.0002990724803031902, -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05, 1.1375726970678419e-05, 2.507497226237533e-10,
      -1.6954149536558305e-06, 8.907507532205309e-07, -0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392, -0.00019932570516188847,
      6.797780477937208e-05, 1.419062920643967e-07, -1.3594048189768693e-05, 8.018470256334202e-06, 0.0005313079364639922, -0.0005921664373536939,
      0.0002708782096718045, 7.902353232660328e-07, -8.153969367561969e-05, 5.61168275310625e-05, 0.00034436760689237765, 5.171790908260592e-05,
      -0.00033493161081142234, 0.0002812695154763237, -0.0006526239185953094, 0.0008394987206720873};
  const double distance = gamma_distance(a, x), eta = x < a ? -::sqrt(2 * distance) : ::sqrt(2 * distance);
  double sum = 0, power_of_a = 1;
  const double* c = coefficients;
  for (int count : terms) {
    double at_eta = 0;
    for (int n = count; n-- > 0;) at_eta = at_eta * eta + c[n];
    sum += at_eta * power_of_a;
    power_of_a /= a;
    c += count;
  }
  const double rest = ::exp(-a * distance) / ::sqrt(6.283185307179586477 * a) * sum;
  return upper ? 0.5 * ::erfc(eta * ::sqrt(a / 2)) + rest : 0.5 * ::erfc(-eta * ::sqrt(a / 2)) - rest;
}

// Q(a, x) if upper, else P(a, x), with torch's values at the ends.
INGOT_FUNCTION double incomplete_gamma(double a, double x, bool upper) {
  const double all = upper ? 0 : 1, nothing = 1 - all;
  if (a < 0 || x < 0) return ::nan("");
  if (a == 0) return x > 0 ? all : ::nan("");
  if (x == 0) return nothing;
  constexpr double largest = 1.7976931348623157e308;
  if (a > largest) return x > largest ? ::nan("") : nothing;
  if (x > largest) return all;
  if (a != a || x != x) return a + x;
  if (a >= 40 && x >= 0.7 * a && x <= 1.3 * a) return gamma_uniform(a, x, upper);
  if (upper && x < 1.5 && a < 0.5 && a * -::log(x) < 0.5) return gamma_near_one(a, x);
  if (x < a + 1) return upper ? 1 - gamma_series(a, x) : gamma_series(a, x);
  return upper ? gamma_fraction(a, x) : 1 - gamma_fraction(a, x);
}
