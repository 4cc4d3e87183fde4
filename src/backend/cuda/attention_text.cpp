#include "backend/cuda/attention_text.h"

#include <algorithm>

#include "backend/cuda/element_text.h"
#include "backend/cuda/expression.h"
#include "base/error.h"
#include "base/hash.h"
#include "kernels/attention/attention_cuda_args.h"

namespace ingot::backend::cuda {

using Args = kernels::AttentionCudaArgs;
using ir::DType;

namespace {

constexpr std::string_view shared_text = R"(
template <bool V> struct Yes { static constexpr bool yes = V; };
// Rows [first, first + Rows) of a matrix into shared memory as [Columns / 64][Rows][64], zeros behind its end.
template <int Rows, int Columns, int Threads, bool Aligned, class H>
__device__ __forceinline__ void bring(H* to, const H* from, i64 stride, i64 first, i64 rows) {
  if (Aligned) {
    for (int k = threadIdx.x; k < Rows * (Columns / 8); k += Threads) {
      const int r = k / (Columns / 8), c = k % (Columns / 8);
      const bool there = first + r < rows;
      bring_or_zero(shared_address(to + c / 8 * Rows * 64 + piece_of(r, c % 8)), from + (there ? (first + r) * stride + c * 8 : 0), there ? 16u : 0u);
    }
  } else {
    for (int k = threadIdx.x; k < Rows * Columns; k += Threads) {
      const int r = k / Columns, c = k % Columns;
      H zero;
      zero.bits = 0;
      to[c / 64 * Rows * 64 + piece_of(r, c / 8 % 8) + c % 8] = first + r < rows ? from[(first + r) * stride + c] : zero;
    }
  }
  commit_brought();
}
template <int D, int E, int Warps, bool Aligned, bool Causal, class H, class Mask>
__device__ __forceinline__ void attend(const H* q, const H* k, const H* v, H* out, i64 sq, i64 sk, i64 sv, i64 so, i64 S, i64 T, i64 s0, f32 scale, f32 unit, Mask mask) {
  constexpr int threads = Warps * 32, queries = Warps * 16, keys = 64, dp = (D + 63) / 64 * 64, ep = (E + 63) / 64 * 64;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  const f32 nothing = of_bits(0xff800000u);  // -infinity
#ifdef INGOT_WARPGROUPS
  constexpr bool by_groups = Warps % 4 == 0;
#else
  constexpr bool by_groups = false;
#endif
  H* const q_rows = (H*)tiles_of_block;
  H* const k_rows = q_rows + queries * dp;
  H* const v_rows = k_rows + 2 * keys * dp;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  i64 last = T;
  if (Causal && s0 + queries < last) last = s0 + queries;
  const int turns = (int)((last + keys - 1) / keys);
  bring<queries, D, threads, Aligned>(q_rows, q, sq, s0, S);
  if (turns > 0) {
    bring<keys, D, threads, Aligned>(k_rows, k, sk, 0, T);
    bring<keys, E, threads, Aligned>(v_rows, v, sv, 0, T);
  }
  // What warps multiply by themselves they hold in fragments; groups of four read it where it lies.
  u32 a[D / 16][4];
  if (turns > 0) {
    wait_brought<2>();
  } else {
    wait_brought<0>();
  }
  if constexpr (!by_groups) {
    __syncthreads();
#pragma unroll
    for (int d = 0; d < D / 16; ++d) four_matrices(a[d], shared_address(q_rows + d / 4 * queries * 64 + piece_of(warp * 16 + lane % 16, d % 4 * 2 + lane / 16)));
  }
  f32 o[E / 8][4], most[2] = {nothing, nothing}, total[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < E / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) o[n][i] = 0.0f;
  }
  const i64 row = s0 + warp * 16 + lane / 4;
  for (int turn = 0; turn < turns; ++turn) {
    const H* const kt = k_rows + (turn & 1) * keys * dp;
    const H* const vt = v_rows + (turn & 1) * keys * ep;
    if (turn + 1 < turns) {
      bring<keys, D, threads, Aligned>(k_rows + ((turn + 1) & 1) * keys * dp, k, sk, (i64)(turn + 1) * keys, T);
      bring<keys, E, threads, Aligned>(v_rows + ((turn + 1) & 1) * keys * ep, v, sv, (i64)(turn + 1) * keys, T);
      wait_brought<2>();
    } else {
      wait_brought<0>();
    }
    if constexpr (by_groups) show_to_matrix_units();
    __syncthreads();
    f32 s[keys / 8][4];
#pragma unroll
    for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
    }
    if constexpr (by_groups) {
      begin_multiplying<keys / 2>(s[0]);
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        multiply_tiles<keys, true>(s[0], tile_of(shared_address(q_rows + d / 4 * queries * 64 + warp / 4 * 64 * 64), 0) + d % 4 * 2, tile_of(shared_address(kt + d / 4 * keys * 64), 0) + d % 4 * 2, H());
      }
      multiplying();
      wait_multiplied<keys / 2>(s[0]);
    } else {
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
#pragma unroll
        for (int n = 0; n < keys / 16; ++n) {
          u32 b[4];
          four_matrices(b, shared_address(kt + d / 4 * keys * 64 + piece_of(n * 16 + lane % 8 + lane / 16 * 8, d % 4 * 2 + lane / 8 % 2)));
          multiply(s[2 * n], a[d], b, H());
          multiply(s[2 * n + 1], a[d], b + 2, H());
        }
      }
    }
    f32 now[2] = {most[0], most[1]};
    // Where all keys are seen by all queries, nothing is asked but the mask.
    const int t0 = turn * keys;
    const bool whole = t0 + keys <= (int)T && s0 + queries <= S && (!Causal || t0 + keys <= (int)s0 + warp * 16 + 1);
    auto see = [&](auto all) {
#pragma unroll
      for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int t = t0 + n * 8 + lane % 4 * 2 + i % 2, at = (int)row + i / 2 * 8;
          if (all.yes) {
            s[n][i] = mask((i64)at, (i64)t, s[n][i] * scale);
          } else {
            const bool seen = t < (int)T && (!Causal || t <= at);
            const f32 score = mask((i64)(at < (int)S ? at : (int)S - 1), (i64)(t < (int)T ? t : (int)T - 1), s[n][i] * scale);
            s[n][i] = seen ? score : nothing;
          }
          now[i / 2] = fmaxf(now[i / 2], s[n][i]);
        }
      }
    };
    if (whole) {
      see(Yes<true>());
    } else {
      see(Yes<false>());
    }
    f32 base[2], shrink[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      now[i] = fmaxf(now[i], __shfl_xor_sync(0xffffffffu, now[i], 1));
      now[i] = fmaxf(now[i], __shfl_xor_sync(0xffffffffu, now[i], 2));
      base[i] = now[i] == nothing ? 0.0f : now[i];
      // exp(x) = 2^(unit x); what is masked stays -infinity.
      shrink[i] = power_of_2((most[i] - base[i]) * unit);
      base[i] *= unit;
      most[i] = now[i];
      total[i] *= shrink[i];
    }
#pragma unroll
    for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] = power_of_2(fmaf(s[n][i], unit, -base[i / 2]));
        total[i / 2] += s[n][i];
      }
    }
#pragma unroll
    for (int n = 0; n < E / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] *= shrink[i / 2];
    }
    u32 p[keys / 16][4];
#pragma unroll
    for (int t = 0; t < keys / 16; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) p[t][i] = both<H>(s[2 * t + i / 2][i % 2 * 2], s[2 * t + i / 2][i % 2 * 2 + 1]);
    }
    if constexpr (by_groups) {
      hold<keys / 4>(p[0]);
      begin_multiplying<E / 2>(o[0]);
#pragma unroll
      for (int t = 0; t < keys / 16; ++t) multiply_rows<E, false>(o[0], p[t], tile_of(shared_address(vt), keys * 128) + t * 128, H());
      multiplying();
      wait_multiplied<E / 2>(o[0]);
      hold<keys / 4>(p[0]);
    } else {
#pragma unroll
      for (int t = 0; t < keys / 16; ++t) {
#pragma unroll
        for (int n = 0; n < E / 16; ++n) {
          u32 b[4];
          four_matrices_turned(b, shared_address(vt + n / 4 * keys * 64 + piece_of(t * 16 + lane % 16, n % 4 * 2 + lane / 16)));
          multiply(o[2 * n], p[t], b, H());
          multiply(o[2 * n + 1], p[t], b + 2, H());
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    total[i] += __shfl_xor_sync(0xffffffffu, total[i], 1);
    total[i] += __shfl_xor_sync(0xffffffffu, total[i], 2);
    const i64 at = row + i * 8;
    // A row without any key gives zeros.
    const f32 over = total[i] == 0.0f ? 0.0f : 1.0f / total[i];
    if (at >= S) continue;
#pragma unroll
    for (int n = 0; n < E / 8; ++n) {
      H* const to = out + at * so + n * 8 + lane % 4 * 2;
      const u32 h = both<H>(o[n][2 * i] * over, o[n][2 * i + 1] * over);
      if (Aligned) {
        *(u32*)to = h;
      } else {
        to[0].bits = (unsigned short)h;
        to[1].bits = (unsigned short)(h >> 16);
      }
    }
  }
}
)";

class Printer {
 public:
  Printer(const Attention& site, DType type, const FusedBody* mask, const std::vector<Layout>& layouts) : a_(site), type_(type), mask_(mask), layouts_(layouts), batch_(site.batch_rank), text_(layouts, 4, true) {}

  EmittedAttention run() {
    args_.batch_rank = static_cast<uint8_t>(batch_);
    args_.depth = static_cast<uint16_t>(a_.d.value());
    args_.width = static_cast<uint16_t>(a_.e.value());
    size_t loads = layouts_.size() - 4;
    for (size_t k = 0; k < layouts_.size(); ++k) {
      bool load = k >= 3 && k < 3 + loads;
      args_.operands.push_back({load ? mask_->operands[k - 3] : type_, static_cast<uint8_t>(layouts_[k].dims.size() - batch_ - 2)});
    }
    std::string element = mask_text();
    std::string kernels;
    for (int v = 0; v < Args::variants; ++v) kernels += kernel(v);
    EmittedAttention out;
    args_.sizes = static_cast<uint32_t>(4 + text_.sizes().size());
    args_.numbers = text_.numbers();
    args_.known = text_.known();
    std::string text = fmt::format("struct @P {{ u64 status; void* pointer[{}]; i64 number[{}]; }};\n", layouts_.size(), std::max<size_t>(1, args_.numbers.size())) + element + kernels;
    args_.name = fmt::format("attention_{:016x}", hash64(std::as_bytes(std::span(text.data(), text.size()))));
    for (size_t at = 0; (at = text.find('@', at)) != std::string::npos;) text.replace(at, 1, args_.name + "_");
    out.name = args_.name;
    out.text = std::move(text);
    out.arguments = kernels::serialise(args_);
    out.sizes = text_.sizes();
    return out;
  }

 private:
  using Number = Args::Number;
  std::string coordinate(size_t axis) const { return axis < batch_ ? fmt::format("c{}", axis) : axis == batch_ ? "s" : "t"; }

  // The mask as a function of one score.
  std::string mask_text() {
    std::string out = "__device__ __forceinline__ f32 @mask(const @P& p";
    std::vector<std::string> coordinates;
    for (size_t axis = 0; axis < batch_ + 2; ++axis) coordinates.push_back(coordinate(axis));
    for (size_t b = 0; b < batch_; ++b) out += fmt::format(", i64 c{}", b);
    out += ", i64 s, i64 t, f32 score) {\n";
    if (mask_ == nullptr) return out + "  return score;\n}\n";
    out += "  u64* const status = (u64*)p.status;\n";
    out += text_.code(*mask_, 3, coordinates, "score");
    return out + fmt::format("  return (f32)r{};\n}}\n", mask_->stores[0].value);
  }

  std::string kernel(int variant) {
    uint32_t warps = Args::warps[variant], queries = warps * Args::queries_of_warp;
    std::string_view h = memory_type(type_);
    size_t result = layouts_.size() - 1;
    // Many blocks of narrow heads: 16 warps on a multiprocessor are worth the few registers that go to memory (H200, 32 x 16 heads of 384: 136 us, else 143).
    int blocks = variant == 1 && args_.depth <= 64 && args_.width <= 64 ? 4 : 1;
    std::string out = fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) @{}(const __grid_constant__ @P p) {{\n", warps * 32, blocks, variant);
    out += "  after_others();\n";
    std::string s = text_.number({Number::size, 0, 0}, a_.s), t = text_.number({Number::size, 1, 0}, a_.t);
    out += fmt::format("  const i64 tiles = ({} + {}) / {};\n", s, queries - 1, queries);
    out += "  i64 rest = blockIdx.x / tiles;\n";
    std::string arguments, offsets[4];
    const size_t operands[4] = {0, 1, 2, result};
    for (size_t b = batch_; b-- > 0;) {
      std::string n = text_.number({Number::dim, static_cast<uint8_t>(result), static_cast<uint8_t>(b)}, layouts_[result].dims[b]);
      out += b > 0 ? fmt::format("  const i64 c{} = rest % {};\n  rest /= {};\n", b, n, n) : "  const i64 c0 = rest;\n";
    }
    for (size_t b = 0; b < batch_; ++b) {
      arguments += fmt::format(", c{}", b);
      for (size_t k = 0; k < 4; ++k) {
        std::string step = text_.stride(operands[k], b);
        if (step != "0ll") offsets[k] += fmt::format(" + c{} * {}", b, step);
      }
    }
    // Scores that nothing is done to are scaled in the exponent.
    const bool later = mask_ == nullptr && a_.scale > 0;
    constexpr double log2_e = 1.4426950408889634;
    const std::string scales = literal(later ? 1.0 : a_.scale, DType::f32) + ", " + literal(later ? a_.scale * log2_e : log2_e, DType::f32);
    auto pointer = [&](size_t k) { return fmt::format("({}{}*)p.pointer[{}]{}", k < 3 ? "const " : "", h, operands[k], offsets[k]); };
    out += fmt::format("  attend<{}, {}, {}, {}, {}>({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, (i64)(blockIdx.x % tiles) * {}, {},\n", args_.depth, args_.width, warps, variant != Args::any_address ? "true" : "false",
                       a_.causal ? "true" : "false", pointer(0), pointer(1), pointer(2), pointer(3), text_.stride(0, batch_), text_.stride(1, batch_), text_.stride(2, batch_), text_.stride(result, batch_), s, t,
                       queries, scales);
    out += fmt::format("    [&](i64 s, i64 t, f32 score) {{ return @mask(p{}, s, t, score); }});\n}}\n", arguments);
    return out;
  }

  const Attention& a_;
  DType type_;
  const FusedBody* mask_;
  const std::vector<Layout>& layouts_;
  size_t batch_;
  ElementText text_;
  Args args_;
};

}  // namespace

std::string_view attention_text() { return shared_text; }

bool attends(DType type, const ir::Dim& depth, const ir::Dim& width) {
  auto fits = [](const ir::Dim& d) { return d.is_constant() && d.value() >= 16 && d.value() <= 128 && d.value() % 16 == 0; };
  return (type == DType::f16 || type == DType::bf16) && fits(depth) && fits(width);
}

EmittedAttention emit_attention(const Attention& site, DType type, const FusedBody* mask, const std::vector<Layout>& layouts) { return Printer(site, type, mask, layouts).run(); }

}  // namespace ingot::backend::cuda
