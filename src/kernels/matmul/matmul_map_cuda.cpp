#include "kernels/matmul/matmul_map_cuda.h"

#include "base/error.h"
#include "kernels/matmul/matmul_map_cuda_args.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_MATMUL_MAP);

constexpr std::string_view text = R"(
// Eight neighbours into shared memory, or zeros.
template <bool Aligned, class H>
__device__ __forceinline__ void bring_eight(H* to, const H* from, bool there) {
  if (Aligned) {
    u32 bytes = there ? 16u : 0u;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
  } else {
    H zero;
    zero.bits = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) to[e] = there ? from[e] : zero;
  }
}
__device__ __forceinline__ f32 finished(const MatmulMapCudaParameters& p, f32 x) {
  if (p.activation == 1) return x < 0.0f ? 0.0f : x;
  if (p.activation == 2) return gelu_tanh_of(x);
  return x;
}
// Two neighbours of D from their sums.
template <class H>
__device__ __forceinline__ void put_result(const MatmulMapCudaParameters& p, i64 row, i64 column, f32 first, f32 second) {
  first *= p.alpha;
  second *= p.alpha;
  if (p.bias != 0) {
    const H* bias = (const H*)p.bias + column;
    first += value(bias[0]);
    second += value(bias[1]);
  }
  if (p.residual != 0) {
    const H* residual = (const H*)p.residual + row * p.residual_row + column;
    first += value(residual[0]);
    second += value(residual[1]);
  }
  H both_of[2];
  both_of[0] = memory<H>(finished(p, first));
  both_of[1] = memory<H>(finished(p, second));
  H* out = (H*)p.out + row * p.out_row + column;
  if ((u64)out % 4 == 0) {
    *(u32*)out = (u32)both_of[0].bits | (u32)both_of[1].bits << 16;
  } else {
    out[0] = both_of[0];
    out[1] = both_of[1];
  }
}
// A tile of D: BM x BN by warps of WM x WN. A's and B's tiles of K go round in shared memory, their eights permuted so that reading them is free of conflicts.
template <class H, int BM, int BN, int WM, int WN, bool Aligned>
__device__ __forceinline__ void product_through_map(const MatmulMapCudaParameters& p) {
  constexpr int depth = matmul_map_depth, stages = matmul_map_stages, threads = BM / WM * (BN / WN) * 32;
  constexpr int eights = depth / 8, row_step = threads / eights, rows = BM / row_step;       // of A, of one thread
  constexpr int b_eights = BN / 8, b_step = threads / b_eights, b_rows = depth / b_step;     // of B
  extern __shared__ uint4 map_tiles[];
  H* const a_tiles = (H*)map_tiles;
  H* const b_tiles = a_tiles + stages * BM * depth;
  const int tiles_n = (int)((p.n + BN - 1) / BN), tiles_m = (int)((p.m + BM - 1) / BM);
  const int tile_n = blockIdx.x % tiles_n, tile_m = blockIdx.x / tiles_n % tiles_m, split = blockIdx.x / tiles_n / tiles_m;
  const i64 m0 = (i64)tile_m * BM, n0 = (i64)tile_n * BN, k0 = (i64)split * p.turns * depth;
  i64 k_end = k0 + (i64)p.turns * depth;
  if (k_end > p.k) k_end = p.k;
  const int turns = (int)((k_end - k0 + depth - 1) / depth);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
  // What this thread brings of A: the same eight of K of several rows.
  const int my_row = threadIdx.x / eights, my_eight = threadIdx.x % eights;
  const H* from[rows];
  int guard[rows][2];
  bool live[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    i64 row = m0 + my_row + r * row_step;
    live[r] = row < p.m;
    u32 i = live[r] ? (u32)row : 0u;
    u32 i2 = i % (u32)p.m_extent[2], rest = i / (u32)p.m_extent[2], i1 = rest % (u32)p.m_extent[1], i0 = rest / (u32)p.m_extent[1];
    from[r] = (const H*)p.a + p.base + (i64)i0 * p.m_step[0] + (i64)i1 * p.m_step[1] + (i64)i2 * p.m_step[2];
#pragma unroll
    for (int g = 0; g < 2; ++g) guard[r][g] = p.origin[g] + (int)i0 * p.m_guard[g][0] + (int)i1 * p.m_guard[g][1] + (int)i2 * p.m_guard[g][2];
  }
  int k0_at, k1_at, k2_at;
  {
    u32 k = (u32)(k0 + my_eight * 8), rest = k / (u32)p.k_extent[2];
    k2_at = (int)(k % (u32)p.k_extent[2]);
    k1_at = (int)(rest % (u32)p.k_extent[1]);
    k0_at = (int)(rest / (u32)p.k_extent[1]);
  }
  const int b_row = threadIdx.x / b_eights, b_eight = threadIdx.x % b_eights;
  const bool b_live = n0 + b_eight * 8 < p.n;
  const H* const b_from = (const H*)p.b + n0 + b_eight * 8;
  int brought = 0;
  auto bring_turn = [&] {
    if (brought < turns) {
      H* const at = a_tiles + brought % stages * BM * depth;
      H* const bt = b_tiles + brought % stages * BN * depth;
      const i64 offset = (i64)k0_at * p.k_step[0] + (i64)k1_at * p.k_step[1] + k2_at;
      const int g0 = k0_at * p.k_guard[0][0] + k1_at * p.k_guard[0][1], g1 = k0_at * p.k_guard[1][0] + k1_at * p.k_guard[1][1];
      const bool k_live = k0_at < p.k_extent[0];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const int row = my_row + r * row_step;
        const bool there = live[r] && k_live && (u32)(guard[r][0] + g0) < (u32)p.inside[0] && (u32)(guard[r][1] + g1) < (u32)p.inside[1];
        bring_eight<Aligned>(at + row * depth + (my_eight ^ (row >> 1 & 3)) * 8, there ? from[r] + offset : (const H*)p.b, there);
      }
      k2_at += depth;
      while (k2_at >= p.k_extent[2]) {
        k2_at -= p.k_extent[2];
        if (++k1_at == p.k_extent[1]) {
          k1_at = 0;
          ++k0_at;
        }
      }
#pragma unroll
      for (int r = 0; r < b_rows; ++r) {
        const int row = b_row + r * b_step;
        const i64 k = k0 + (i64)brought * depth + row;
        const bool there = b_live && k < p.k;
        bring_eight<Aligned>(bt + row * BN + (b_eight ^ (row & 7)) * 8, there ? b_from + k * p.b_row : (const H*)p.b, there);
      }
      ++brought;
    }
    asm volatile("cp.async.commit_group;");
  };
  f32 sums[WM / 16][WN / 8][4];
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
    }
  }
#pragma unroll
  for (int s = 0; s + 1 < stages; ++s) bring_turn();
  for (int turn = 0; turn < turns; ++turn) {
    asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2));
    __syncthreads();
    bring_turn();
    const H* const at = a_tiles + turn % stages * BM * depth;
    const H* const bt = b_tiles + turn % stages * BN * depth;
#pragma unroll
    for (int k = 0; k < depth / 16; ++k) {
      u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        const int row = warp_m + i * 16 + lane % 16;
        four_matrices(a[i], shared_address(at + row * depth + ((k * 2 + lane / 16) ^ (row >> 1 & 3)) * 8));
      }
#pragma unroll
      for (int j = 0; j < WN / 16; ++j) {
        const int row = k * 16 + lane % 16, eight = (warp_n + j * 16) / 8 + lane / 16;
        four_matrices_turned(b[j], shared_address(bt + row * BN + (eight ^ (row & 7)) * 8));
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) multiply(sums[i][j], a[i], b[j / 2] + j % 2 * 2, H());
      }
    }
  }
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = m0 + warp_m + i * 16 + lane / 4 + half * 8;
      if (row >= p.m) continue;
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        const i64 column = n0 + warp_n + j * 8 + lane % 4 * 2;
        if (column >= p.n) continue;
        const f32 first = sums[i][j][half * 2], second = sums[i][j][half * 2 + 1];
        if (p.splits == 1) {
          put_result<H>(p, row, column, first, second);
        } else {
          f32* to = (f32*)p.parts + (split * p.m + row) * p.n + column;
          *(float2*)to = make_float2(first, second);
        }
      }
    }
  }
}
// Sums of several blocks, always in the same order.
template <class H>
__device__ __forceinline__ void finish_product(const MatmulMapCudaParameters& p) {
  const i64 pair = (i64)blockIdx.x * matmul_map_finish_threads + threadIdx.x, row = pair / (p.n / 2), column = pair % (p.n / 2) * 2;
  if (row >= p.m) return;
  const float2* from = (const float2*)p.parts + pair;
  f32 first = 0.0f, second = 0.0f;
#pragma unroll 8
  for (int s = 0; s < p.splits; ++s) {
    float2 part = from[s * p.m * (p.n / 2)];
    first += part.x;
    second += part.y;
  }
  put_result<H>(p, row, column, first, second);
}
)";

}  // namespace

std::string_view matmul_map_cuda_text() {
  static const std::string all = std::string(parameters_text) +
                                 fmt::format("\nconstexpr int matmul_map_depth = {}, matmul_map_stages = {}, matmul_map_finish_threads = {};\n", matmul_map_depth,
                                             matmul_map_stages, matmul_map_finish_threads) +
                                 std::string(text);
  return all;
}

CudaPart matmul_map_cuda_part(ir::DType type) {
  CudaPart out;
  out.name = matmul_map_cuda_name(type);
  auto kernel = [&](const std::string& suffix, int threads, const std::string& call) {
    out.kernels.push_back(fmt::format("{}_{}", out.name, suffix));
    out.text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ MatmulMapCudaParameters p) {{ {}(p); }}\n", threads, out.kernels.back(), call);
  };
  constexpr std::string_view warps[] = {"64, 32", "32, 32"};
  for (int v = 0; v < 4; ++v) {
    const MatmulMapTile& t = matmul_map_tiles[v % 2];
    kernel(std::to_string(v), t.threads, fmt::format("product_through_map<{}, {}, {}, {}, {}>", cuda_type(type), t.rows, t.columns, warps[v % 2], v < 2));
  }
  kernel("finish", matmul_map_finish_threads, fmt::format("finish_product<{}>", cuda_type(type)));
  return out;
}

}  // namespace ingot::kernels
