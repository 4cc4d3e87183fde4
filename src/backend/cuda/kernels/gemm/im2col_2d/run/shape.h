// Convolutions of few channels on CUDA: which maps are such convolutions, and how a block iterates over them.
#pragma once
#include <optional>
#include <span>

#include "backend/cuda/kernels/gemm/im2col_2d/run/tuning.h"
#include "backend/cuda/kernels/run/axes.h"
#include "kernels/matmul/run/matmul_args.h"

// A block computes `down` x `across` places of the result. The part of the image that they read, a patch, is in shared memory in the same order as in global
// memory: line after line (and channel after channel, if the channels are separate planes). A line starts at a vector of 16 bytes, so it may start `before`
// elements ahead of the first place's window. A run is the part of a window that is contiguous in a line. K goes through the runs in words: pairs of halves, or
// floats. If a run starts between two words, `lead` unused halves come first.
#define INGOT_CUDA_IM2COL_2D \
  struct Im2col2d { \
    static constexpr int down = im2col_2d_down, across = im2col_2d_across; \
    int channels, kernel[2], stride[2], pad[2]; /* h, w */ \
    int last;                                   /* a place's channels are neighbours, else its columns are */ \
    int wide;                                   /* 32 columns of the result times this are a block's */ \
    int size;                                   /* bytes of an element */ \
    constexpr int per() const { return 4 / size; }   /* elements of a word */ \
    constexpr int each() const { return 16 / size; } /* and of a vector */ \
    constexpr int inner() const { return last ? channels : 1; } \
    constexpr int run() const { return kernel[1] * inner(); } \
    constexpr int runs() const { return kernel[0] * (last ? 1 : channels); } \
    constexpr int step() const { return stride[1] * inner(); } /* from one place to the next, in a line */ \
    constexpr int before() const { return (each() - pad[1] * inner() % each()) % each(); } \
    constexpr int start() const { return -pad[1] * inner() - before(); } /* of a line, from where the first place is */ \
    constexpr bool odd() const { return step() % per() != 0; } /* every other place's runs begin between two words: they read a copy, one half aside */ \
    constexpr int lead() const { return odd() ? 0 : before() % per(); } \
    constexpr int words() const { return (lead() + run() + per() - 1) / per(); } /* of a run */ \
    constexpr int words_of_k() const { return runs() * words(); } \
    constexpr int steps() const { return (words_of_k() + 7) / 8; } /* of eight words of K */ \
    constexpr int height() const { return (down - 1) * stride[0] + kernel[0]; } \
    constexpr int lines() const { return height() * (last ? 1 : channels); } \
    constexpr int vectors() const { return (before() + (across - 1) * step() + run() + each() - 1) / each(); } /* of a line */ \
    constexpr int pitch() const { return vectors() * each(); } \
    constexpr int patch() const { return lines() * pitch() + 8; } /* elements; what fills the last run may lie after it */ \
    constexpr int place(int word) const { /* of a word of K in a patch, as the first place sees it */ \
      const int last_one = words_of_k() - 1, real = word < words_of_k() ? word : last_one, r = real / words(); \
      return (last ? r : r / kernel[0] * height() + r % kernel[0]) * pitch() + (real % words() + word - real) * per(); \
    } \
    constexpr int k(int word, int element) const { /* the row of B, -1: none */ \
      const int r = word / words(), at = word % words() * per() + element - lead(); \
      const int row = last ? (at % channels * kernel[0] + r) * kernel[1] + at / channels : r * kernel[1] + at; \
      return r < runs() && at >= 0 && at < run() ? row : -1; \
    } \
    constexpr unsigned mask(int word) const { return per() == 1 ? (k(word, 0) < 0 ? 0u : 0xffffffffu) : (k(word, 0) < 0 ? 0u : 0xffffu) | (k(word, 1) < 0 ? 0u : 0xffff0000u); } \
    constexpr int high() const { return wide == 1 ? 4 : wide == 4 ? 1 : 2; } /* warps that share the lines of places */ \
    constexpr int threads() const { return 32 * wide * high(); } \
    constexpr int blocks() const { return (steps() <= 4 ? 20 : steps() <= 12 ? 12 : 8) / (wide * high()); } /* on a multiprocessor: all of B is in registers */ \
    constexpr int half_step() const { return wide * 128 + 4; } /* words of B's fragments in shared memory; 4: for its banks */ \
    constexpr int weights() const { return steps() * 2 * half_step(); } \
    constexpr int shared() const { return weights() * 4 + (odd() ? 3 : 2) * patch() * size; } /* bytes */ \
  };

namespace ingot::kernels {

// Names that the text for CUDA has too.
inline constexpr int im2col_2d_down = gemm::im2col_2d_tuning::down, im2col_2d_across = gemm::im2col_2d_tuning::across;
INGOT_CUDA_IM2COL_2D

// The roles of a map's indices and axes: K is (channel, h, w), or (h, w) if there is one channel.
struct Im2col2dAxes {
  Im2col2d numbers{};          // without A's layout
  int c = -1, h = 0, w = 0;           // axes of A; c: -1 for one channel
  int image = -1;                     // index of m; -1 for one image
  int y = 0, x = 0;                   // indices of m
};
// `sizes`: of the map's indices (negative if unknown), then the offset along each axis.
std::optional<Im2col2dAxes> im2col_2d_axes(const GemmMap&, std::span<const int64_t> sizes);
// True if a kernel is possible, by sizes, shared memory and registers.
bool is_possible(const Im2col2d&);

}  // namespace ingot::kernels
