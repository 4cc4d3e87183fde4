// The smallest Fourier transforms, for C++ and CUDA. V: a number or several side by side, T: a number. INGOT_INLINE: how such a function is declared.
// The transform of R elements, in place. `circle`: cos and sin of 2 pi k / radix.
template <int R, class V, class T>
INGOT_INLINE void butterfly(V* re, V* im, int radix, const T* cos, const T* sin) {
  if constexpr (R == 2) {
    const V a = re[0], b = im[0];
    re[0] = a + re[1], im[0] = b + im[1];
    re[1] = a - re[1], im[1] = b - im[1];
  } else if constexpr (R == 3) {
    constexpr auto height = static_cast<T>(0.86602540378443864676);
    const V sum_re = re[1] + re[2], sum_im = im[1] + im[2], up_re = (im[1] - im[2]) * height, up_im = (re[2] - re[1]) * height;
    const V low_re = re[0] - sum_re * static_cast<T>(0.5), low_im = im[0] - sum_im * static_cast<T>(0.5);
    re[0] += sum_re, im[0] += sum_im;
    re[1] = low_re + up_re, im[1] = low_im + up_im;
    re[2] = low_re - up_re, im[2] = low_im - up_im;
  } else if constexpr (R == 4) {
    const V a_re = re[0] + re[2], a_im = im[0] + im[2], b_re = re[0] - re[2], b_im = im[0] - im[2];
    const V c_re = re[1] + re[3], c_im = im[1] + im[3], d_re = im[1] - im[3], d_im = re[3] - re[1];
    re[0] = a_re + c_re, im[0] = a_im + c_im;
    re[1] = b_re + d_re, im[1] = b_im + d_im;
    re[2] = a_re - c_re, im[2] = a_im - c_im;
    re[3] = b_re - d_re, im[3] = b_im - d_im;
  } else if constexpr (R == 5) {
    constexpr auto c1 = static_cast<T>(0.30901699437494742410), c2 = static_cast<T>(-0.80901699437494742410);
    constexpr auto s1 = static_cast<T>(0.95105651629515357212), s2 = static_cast<T>(0.58778525229247312917);
    const V a_re = re[1] + re[4], a_im = im[1] + im[4], b_re = re[2] + re[3], b_im = im[2] + im[3];
    const V c_re = im[1] - im[4], c_im = re[4] - re[1], d_re = im[2] - im[3], d_im = re[3] - re[2];
    const V e_re = re[0] + a_re * c1 + b_re * c2, e_im = im[0] + a_im * c1 + b_im * c2, f_re = c_re * s1 + d_re * s2, f_im = c_im * s1 + d_im * s2;
    const V g_re = re[0] + a_re * c2 + b_re * c1, g_im = im[0] + a_im * c2 + b_im * c1, h_re = c_re * s2 - d_re * s1, h_im = c_im * s2 - d_im * s1;
    re[0] += a_re + b_re, im[0] += a_im + b_im;
    re[1] = e_re + f_re, im[1] = e_im + f_im;
    re[2] = g_re + h_re, im[2] = g_im + h_im;
    re[3] = g_re - h_re, im[3] = g_im - h_im;
    re[4] = e_re - f_re, im[4] = e_im - f_im;
  } else {  // any odd radix: elements k and radix - k have the same sums but for a sign
    const int pairs = radix / 2;
    V to_re[R], to_im[R];
    to_re[0] = re[0], to_im[0] = im[0];
    for (int j = 1; j <= pairs; ++j) {
      const V a = re[j], b = im[j];
      re[j] = a + re[radix - j], im[j] = b + im[radix - j];
      re[radix - j] = a - re[radix - j], im[radix - j] = b - im[radix - j];
      to_re[0] += re[j], to_im[0] += im[j];
    }
    for (int k = 1; k <= pairs; ++k) {
      V even_re = re[0], even_im = im[0], odd_re{}, odd_im{};
      for (int j = 1, at = k; j <= pairs; ++j, at = at + k >= radix ? at + k - radix : at + k) {
        even_re += re[j] * cos[at], even_im += im[j] * cos[at];
        odd_re += im[radix - j] * sin[at], odd_im -= re[radix - j] * sin[at];
      }
      to_re[k] = even_re + odd_re, to_im[k] = even_im + odd_im;
      to_re[radix - k] = even_re - odd_re, to_im[radix - k] = even_im - odd_im;
    }
    for (int k = 0; k < radix; ++k) re[k] = to_re[k], im[k] = to_im[k];
  }
}
