// Iterates over the rows of a body and gives the address of each load and store, without a multiplication per axis.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

struct RowWalk {
  struct Guard {                   // inside where 0 <= coordinate * step - lower < extent
    size_t operand;
    int64_t step, lower, extent;
  };
  struct Index {                   // an index in memory
    uint32_t operand;
    std::vector<int64_t> strides;  // in elements, per axis of rows
    int64_t extent, step;          // number of entries to choose from; bytes between them
  };
  struct Operand {                 // of a load or a store
    uint32_t operand;
    int64_t base = 0;              // in bytes
    std::vector<int64_t> strides;  // in bytes, per axis of rows
    size_t first_index = 0, indices = 0;
  };
  static constexpr size_t max_axes = fused_tuning::max_row_axes, max_operands = fused_tuning::max_row_operands, max_indices = fused_tuning::max_row_indices;
  std::vector<int64_t> extents;    // of the axes of rows
  std::vector<Operand> operands;
  std::vector<std::vector<Guard>> guards;  // per axis of rows
  std::vector<Index> indices;
  int64_t rows = 1;

  explicit RowWalk(const Bound&);
  // False if its address depends on more than row coordinates, guards along rows, and indices in memory. The operand becomes the last one.
  bool add_load(const Bound&, uint32_t instruction);
  bool add_store(const Bound&, const ProgramStore&);

  // A position of the walk.
  class At {
   public:
    At(const RowWalk&, std::span<const TensorRef> operands, std::byte* const* held, int64_t row);
    // The operand's address in this row, or null if a guard excludes it. Error (invalid_input) for an index out of range.
    std::byte* pointer(size_t operand) const;
    void next(int64_t rows = 1);       // at most rows_left()
    // Rows left along the innermost axis.
    int64_t rows_left() const { return walk_.extents.empty() ? 1 : walk_.extents.back() - at_[walk_.extents.size() - 1]; }
    std::byte* start(size_t operand) const { return operands_[operand]; }  // without its indices
    // offsets[r]: of row r from here, along the innermost axis, from start(). Not for guarded loads. Error (invalid_input) for an index out of range.
    void find_offsets(size_t operand, int64_t* offsets, int64_t rows) const;

   private:
    void move(size_t axis, int64_t by);
    void find_outside(size_t axis);
    const RowWalk& walk_;
    int64_t at_[max_axes] = {};
    uint32_t outside_[max_axes] = {};  // a bit for each operand that a guard along the axis excludes
    uint32_t excluded_ = 0;             // along any axis
    std::byte* operands_[max_operands];
    const int64_t* indices_[max_indices];
    struct Steps {                 // along one axis, for operands whose address changes
      int64_t operands[max_operands], indices[max_indices];
    };
    Steps steps_[max_axes];
    const size_t operand_count_, index_count_;
  };

 private:
  bool add_index(const Bound&, uint32_t instruction, int64_t extent, int64_t step);
};

}  // namespace ingot::kernels
