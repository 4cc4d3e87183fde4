// Rows of a convolution's windows, copied element by element in any type: what one row of the GEMM's A is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/run/index_map.h"

namespace ingot::kernels::conv {

class WindowRows {
 public:
  // The map's indices are batch_rank, then m_rank, then those of K. `size`: bytes of an element: 2, 4 or 8.
  WindowRows(const IndexMap&, size_t batch_rank, size_t m_rank, int64_t size);

  bool fits() const { return fits_; }  // false: windows have more runs than are listed
  int64_t runs() const { return static_cast<int64_t>(inside_.starts.size()); }
  // Copies elements [k0, k1) of rows [m, m + rows), `stride` bytes apart. `image`: where the window of row 0 begins, by the indices of batches.
  void copy(const std::byte* a, const IndexMap::Position& image, int64_t m, int64_t rows, int64_t k0, int64_t k1, std::byte* to, int64_t stride) const;
  // True if rows are neighbours in A as they are, `step` bytes apart.
  bool in_place(int64_t& step) const;

 private:
  using Index = IndexMap::Index;
  using Position = IndexMap::Position;
  // Elements of a window that are neighbours in A: all runs have the same length.
  struct Runs {
    int64_t length = 1;
    std::vector<Position> starts;
  };
  bool list(std::vector<Index> k, Runs& to) const;
  bool is_inside(const Position&) const;
  void copy_row(const std::byte* a, const Position& row, int64_t k0, int64_t k1, std::byte* to) const;

  int64_t size_;
  int axes_;
  int64_t extent_[IndexMap::max_axes] = {};  // of A, along the axes with a border
  int64_t reach_[IndexMap::max_axes] = {};   // of a window
  std::vector<Index> m_;
  Runs cut_, inside_;                    // of windows that may leave A: what is inside or outside together; of others
  std::vector<int64_t> places_;          // elements of a window inside A, if none are neighbours
  void (*gather_)(std::byte* to, const std::byte* from, const std::vector<int64_t>& places);
  bool fits_ = true;
};

}  // namespace ingot::kernels::conv
