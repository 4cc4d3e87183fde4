// Convolutions of volumes with few channels and stride 1 on CUDA: which maps are such convolutions, and how a block iterates over them.
#pragma once
#include <optional>
#include <span>

#include "backend/cuda/kernels/gemm/im2col_3d/run/tuning.h"
#include "backend/cuda/kernels/run/axes.h"
#include "kernels/matmul/run/matmul_args.h"

// A block computes `deep` x `down` x `across` places of the result. The part of the volume that they read, a patch, is in shared memory once, so each element of A
// is copied once for all windows of the block, instead of once for each. A place's channels are in vectors of 16 bytes, missing ones are zeros; all first vectors
// come first, then all second vectors, .. K goes through the planes and lines of a window, and along a line through its vectors, two in a step.
#define INGOT_CUDA_IM2COL_3D \
  struct Im2col3d { \
    static constexpr int across = im2col_3d_across; \
    int channels, kernel[3]; /* d, h, w */ \
    int last;                /* K is (d, h, w, channel), else (channel, d, h, w) */ \
    int wide;                /* 16 columns of the result times this are a block's */ \
    int size;                /* bytes of an element */ \
    int deep, high, lines;   /* warps along depth, and along height; lines of places of each */ \
    constexpr int per() const { return 4 / size; }   /* elements of a word */ \
    constexpr int each() const { return 16 / size; } /* and of a vector */ \
    constexpr bool narrow() const { return channels % each() != 0; } /* elements are copied one by one */ \
    constexpr int vectors() const { return (channels + each() - 1) / each(); } /* of a place */ \
    constexpr int of_line() const { return kernel[2] * vectors(); } /* vectors of a line of a window */ \
    constexpr int steps() const { return (of_line() + 1) / 2; } \
    constexpr int down() const { return high * lines; } \
    constexpr int threads() const { return deep * high * 32; } \
    constexpr int line() const { return across + kernel[2] - 1; } /* places of a patch */ \
    constexpr int plane() const { return line() * (down() + kernel[1] - 1); } \
    constexpr int places() const { return plane() * (deep + kernel[0] - 1); } \
    constexpr int pitch() const { return vectors() == 1 ? places() : (places() + 7) / 8 * 8 + (vectors() == 2 ? 4 : vectors() <= 4 ? 2 : 1); } /* of vectors, for their banks */ \
    constexpr int patch() const { return vectors() * pitch() * each(); } /* elements */ \
    constexpr int weights() const { return kernel[0] * kernel[1] * steps() * wide * 128; } /* words: the fragments of B */ \
    constexpr int shared() const { return weights() * 4 + 2 * patch() * size; } /* bytes */ \
    constexpr int blocks() const { /* on a multiprocessor, of 64 K registers, with 128 for a thread */ \
      const int fit = (227 << 10) / (shared() + 1024), max_blocks = (64 << 10) / (128 * threads()); \
      return fit < 1 ? 1 : fit < max_blocks ? fit : max_blocks; \
    } \
    constexpr int k(int z, int y, int x, int c) const { /* the row of B */ \
      const int tap = (z * kernel[1] + y) * kernel[2] + x; \
      return last ? tap * channels + c : c * kernel[0] * kernel[1] * kernel[2] + tap; \
    } \
  };

namespace ingot::kernels {

inline constexpr int im2col_3d_across = gemm::im2col_3d_tuning::across;  // a name that the text for CUDA has too
INGOT_CUDA_IM2COL_3D

// The roles of a map's indices and axes, -1 for what there is not: a single volume, a single channel.
struct Im2col3dAxes {
  Im2col3d numbers{};
  int channel = -1, images = -1, axis[3] = {-1, -1, -1};  // axes of A: of the channels and volumes; d, h, w
  int image = -1, place[3] = {-1, -1, -1};                // indices of m: of the volumes; z, y, x
};
// `sizes`: of the map's indices (negative if unknown), then the offset along each axis.
std::optional<Im2col3dAxes> im2col_3d_axes(const GemmMap&, std::span<const int64_t> sizes);
// Sets how many places a block has: the most with which there are enough blocks for the places known and `most_shared` bytes of shared memory are enough, if any;
// negative extents are not known.
void spread(Im2col3d&, std::span<const int64_t, 4> extents, int64_t columns, int max_shared);
// True if a kernel is possible, by sizes, shared memory and registers.
bool is_possible(const Im2col3d&);

}  // namespace ingot::kernels
