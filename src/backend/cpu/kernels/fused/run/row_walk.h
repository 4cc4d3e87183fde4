// The rows of a body one after another: where its loads and stores of each lie, without a multiplication for each axis.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

struct RowWalk {
  struct Guard {                   // inside where 0 <= coordinate * step - lower < extent
    size_t axis;
    int64_t step, lower, extent;
  };
  struct Index {                   // in memory
    uint32_t operand;
    std::vector<int64_t> strides;  // elements, along each axis of rows
    int64_t extent, step;          // of what it chooses from; bytes
  };
  struct Operand {                 // of a load or a store
    uint32_t operand;
    int64_t base = 0;              // bytes
    std::vector<int64_t> strides;  // bytes, along each axis of rows
    std::vector<Guard> guards;
    size_t first_index = 0, indices = 0;
  };
  static constexpr size_t most_axes = 16, most_operands = 24, most_indices = 16;
  std::vector<int64_t> extents;    // of rows
  std::vector<Operand> operands;
  std::vector<Index> indices;
  int64_t rows = 1;

  explicit RowWalk(const Bound&);
  // False if it leads elsewhere than guards along rows and indices in memory say. The last one added is behind the others.
  bool add_load(const Bound&, uint32_t instruction);
  bool add_store(const Bound&, const ProgramStore&);

  // Where it is.
  class At {
   public:
    At(const RowWalk&, std::span<const TensorRef> operands, std::byte* const* held, int64_t row);
    // Of the row, or null where a guard keeps it out. Error (invalid_input) of an index that is out of range.
    std::byte* pointer(size_t operand) const;
    void next();

   private:
    void move(size_t axis, int64_t by);
    const RowWalk& walk_;
    int64_t at_[most_axes] = {};
    std::byte* operands_[most_operands];
    const int64_t* indices_[most_indices];
    struct Steps {                 // along one axis, of what is moved for each row
      int64_t operands[most_operands], indices[most_indices];
    };
    Steps steps_[most_axes];
    const size_t operand_count_, index_count_;
  };

 private:
  bool add_index(const Bound&, uint32_t instruction, int64_t extent, int64_t step);
};

}  // namespace ingot::kernels
