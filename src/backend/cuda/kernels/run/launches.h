// Steps that are lists of launches (attention, GEMMs, scan, sort, scatter), decided by a pure function for each set of sizes.
#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/run/axes.h"
#include "backend/cuda/kernels/run/tuning.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

// A tensor map for Hopper's copying unit (TMA): elements of two bytes, or floats that it rounds to TF32 (10 bits of mantissa), in boxes whose rows are 128 bytes
// of shared memory, swizzled as in matrix_text.h. Axes from innermost; elements outside are zero. `pixels`: [n, h, w, c] or [n, d, h, w, c] read pixel by pixel,
// at positions that go from `lower` (of w, h and d) in steps to the tensor's last one plus `upper`.
struct CudaTiles {
  size_t at = 0;  // offset in the kernel's parameters (128 bytes)
  size_t index = 0;  // of the operand
  bool in_scratch = false;  // of the step, in place of an operand
  int64_t offset = 0;  // bytes from the operand's address, or the scratch's
  ir::DType dtype = ir::DType::f16;  // f32, or any type of two bytes
  bool rounded = false;  // floats, to TF32 on their way
  bool pixels = false;
  int rank = 3;
  std::array<uint64_t, 5> dims{};
  std::array<uint64_t, 4> strides{};  // in bytes, from the second axis on
  std::array<uint32_t, 4> box{};  // in elements; pixels: channels and positions
  std::array<uint32_t, 5> steps{1, 1, 1, 1, 1};
  std::array<int, 3> lower{}, upper{};
};

struct CudaLaunch {
  struct Pointer {
    enum What : uint8_t { status, operand, scratch } what;
    size_t at;  // offset in `parameters`
    size_t index = 0;  // of the operand
    size_t offset = 0;  // in scratch, in bytes
  };
  std::string kernel;
  uint32_t blocks = 0, threads = 0;
  uint32_t shared = 0;  // bytes of dynamic shared memory
  bool overlaps = false;  // the kernel itself waits for earlier ones
  uint32_t work_tiles = 0;  // work tiles that the blocks process one after another; 0: one per block
  bool spare = false;  // blocks beyond the work end at once
  std::vector<std::byte> parameters;
  std::vector<Pointer> pointers;
  std::vector<CudaTiles> tiles;
  // For registered kernels:
  uint32_t blocks_y = 1, blocks_z = 1, threads_y = 1, threads_z = 1;
  std::vector<size_t> places;  // offset of each parameter in `parameters`; empty: they are one struct
};

// Fourier transforms of rows, images or volumes by cuFFT.
struct CudaTransform {
  // Of what is read or written, in real or complex numbers: from one element along the last axis to the next, and from one row, image or volume to the next. For each axis: how many
  // places along it lie between two neighbours along the axis outside it, in elements along it.
  struct Side {
    int64_t step = 1, distance = 0;
    std::vector<int64_t> embedding = {1};  // that of the first one counts nowhere
  };
  bool inverse = false, of_real = false, to_real = false;  // to_real is inverse too
  bool wide = false;  // float64
  std::vector<int64_t> lengths;  // along each axis
  int64_t count = 0;
  Side from, to;
};

// Where operands must be.
struct CudaPlaces {
  std::vector<size_t> aligned;  // at a multiple of 16 bytes
  std::vector<std::pair<size_t, size_t>> behind;  // the second one element after the first
  bool fit(std::span<const TensorRef> operands) const;
};

struct CudaLaunches : CudaPlaces {
  std::vector<CudaLaunch> list;
  std::vector<CudaLaunch> any;  // used if the operands do not fit the places; their code is in the plan if that may be
  size_t scratch = 0;  // in bytes
  double nanoseconds = 0;  // Resolved::nanoseconds
  // What the launch of `list` that names no kernel does, if `count` is not 0. Its parameters are the addresses that are read and written.
  CudaTransform transform;
  // Tunable::problem and Tunable::choices, if there is a choice that can be timed.
  std::string problem;
  std::vector<std::string> choices;

  // Reserves scratch memory and returns its offset.
  size_t reserve(int64_t bytes);
  // Adds a launch of `blocks` blocks, or none for 0. Error (unsupported) if a grid cannot have so many.
  template <class Parameters>
  void add(std::string kernel, int64_t blocks, uint32_t threads, const Parameters& parameters, std::vector<CudaLaunch::Pointer> pointers) {
    std::vector<std::byte> bytes(sizeof parameters);
    std::memcpy(bytes.data(), &parameters, sizeof parameters);
    add_bytes(std::move(kernel), blocks, threads, std::move(bytes), std::move(pointers));
  }
  // All kernels wait themselves for earlier ones.
  void overlap() {
    for (CudaLaunch& l : list) l.overlaps = true;
  }
  void add_bytes(std::string kernel, int64_t blocks, uint32_t threads, std::vector<std::byte> parameters, std::vector<CudaLaunch::Pointer> pointers);
};

using WantedChoices = std::map<std::string, std::string, std::less<>>;  // by problem
// The properties of the GPU that launches depend on.
struct CudaMachine {
  int multiprocessors = 1;
  bool tiles = false;  // Hopper: kernels with CudaTiles and groups of warps are available
  const WantedChoices* timed = nullptr;  // the choices that were timed as the fastest
};
// The choice to use for the problem: the call's trial, else the one that was timed as the fastest. Empty if neither is known.
std::string_view wanted_choice(const Call&, const CudaMachine&, std::string_view problem);

// Axes of some tensors, without those of size 1, merged where all tensors allow it.
struct JoinedAxes {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;  // per tensor
  int64_t points = 1;

  explicit JoinedAxes(size_t walks) : strides(walks) {}
  // Adds the next inner axis.
  void add(int64_t size, const std::vector<int64_t>& steps);
  template <int Walks>
  CudaAxes<Walks> get() const {
    CudaAxes<Walks> out{};
    out.rank = static_cast<int>(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      out.dims[d] = dims[d];
      for (size_t w = 0; w < strides.size(); ++w) out.strides[w][d] = strides[w][d];
    }
    return out;
  }
};

inline int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

}  // namespace ingot::kernels
