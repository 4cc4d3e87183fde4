// Convolutions of few channels on CUDA: which maps are such convolutions, and how a block iterates over them.
#pragma once
#include <optional>
#include <span>

#include "backend/cuda/kernels/run/axes.h"
#include "kernels/matmul/run/matmul_args.h"

// A block computes `down` x `across` outputs of an image. The part of A that they need (a patch) is in shared memory in A's own layout: for each
// line of it (and each channel, if channels are outermost) the columns. A line starts at a multiple of eight halves, up to `before` halves ahead
// of the first output's window. K is traversed in runs of contiguous elements of a line, two halves at a time. A run starts with `lead` unused
// halves if it would otherwise start between two words.
#define INGOT_CUDA_IMPLICIT_GEMM_PATCH \
  struct ImplicitGemmPatch { \
    static constexpr int down = 8, across = 16; \
    int channels, kernel[2], stride[2], pad[2]; /* h, w */ \
    int last;                                   /* a place's channels are neighbours, else its columns are */ \
    int wide;                                   /* 32 columns of the result times this are a block's */ \
    constexpr int inner() const { return last ? channels : 1; } \
    constexpr int run() const { return kernel[1] * inner(); } \
    constexpr int runs() const { return kernel[0] * (last ? 1 : channels); } \
    constexpr int step() const { return stride[1] * inner(); } /* from one place to the next, in a line */ \
    constexpr int before() const { return (8 - pad[1] * inner() % 8) % 8; } \
    constexpr int start() const { return -pad[1] * inner() - before(); } /* of a line, from where the first place is */ \
    constexpr bool odd() const { return step() % 2 != 0; } /* every other place's runs begin between two words: they read a copy, one half aside */ \
    constexpr int lead() const { return odd() ? 0 : before() % 2; } \
    constexpr int words() const { return (lead() + run() + 1) / 2; } /* of a run */ \
    constexpr int pairs() const { return runs() * words(); } \
    constexpr int steps() const { return (pairs() + 7) / 8; } /* of sixteen of K */ \
    constexpr int height() const { return (down - 1) * stride[0] + kernel[0]; } \
    constexpr int lines() const { return height() * (last ? 1 : channels); } \
    constexpr int eights() const { return (before() + (across - 1) * step() + run() + 7) / 8; } /* of a line */ \
    constexpr int pitch() const { return eights() * 8; } \
    constexpr int patch() const { return lines() * pitch() + 8; } /* halves; what fills the last run may lie behind it */ \
    constexpr int place(int pair) const { /* of a pair of K in a patch, as the first place sees it */ \
      const int last_one = pairs() - 1, real = pair < pairs() ? pair : last_one, r = real / words(); \
      return (last ? r : r / kernel[0] * height() + r % kernel[0]) * pitch() + real % words() * 2 + (pair - real) * 2; \
    } \
    constexpr int k(int pair, int half) const { /* the row of B, -1: none */ \
      const int r = pair / words(), at = pair % words() * 2 + half - lead(); \
      const int row = last ? (at % channels * kernel[0] + r) * kernel[1] + at / channels : r * kernel[1] + at; \
      return r < runs() && at >= 0 && at < run() ? row : -1; \
    } \
    constexpr unsigned mask(int pair) const { return (k(pair, 0) < 0 ? 0u : 0xffffu) | (k(pair, 1) < 0 ? 0u : 0xffff0000u); } \
    constexpr int high() const { return wide == 1 ? 4 : wide == 4 ? 1 : 2; } /* warps that share the lines of places */ \
    constexpr int threads() const { return 32 * wide * high(); } \
    constexpr int blocks() const { return (steps() <= 4 ? 20 : steps() <= 12 ? 12 : 8) / (wide * high()); } /* on a multiprocessor: all of B is in registers */ \
    constexpr int half_step() const { return wide * 128 + 4; } /* words of B's fragments in shared memory; 4: for its banks */ \
    constexpr int weights() const { return steps() * 2 * half_step(); } \
    constexpr int shared() const { return weights() * 4 + (odd() ? 3 : 2) * patch() * 2; } /* bytes */ \
  };

namespace ingot::kernels {

INGOT_CUDA_IMPLICIT_GEMM_PATCH

// The roles of a map's indices and axes: K is (channel, h, w), or (h, w) if there is one channel.
struct MatmulPatchWalk {
  ImplicitGemmPatch numbers{};          // without A's layout
  int c = -1, h = 0, w = 0;           // axes of A; c: -1 for one channel
  int image = -1;                     // index of m; -1 for one image
  int y = 0, x = 0;                   // indices of m
};
// `sizes`: of the map's indices (negative if unknown), then the offset along each axis.
std::optional<MatmulPatchWalk> patch_walk(const GemmMap&, std::span<const int64_t> sizes);
// True if a kernel is possible, by sizes, shared memory and registers.
bool is_possible(const ImplicitGemmPatch&);

}  // namespace ingot::kernels
