// Prints the part of a kernel that decides which elements a thread computes and where they are in memory.
#pragma once
#include <string>
#include <vector>

#include "backend/body.h"
#include "backend/cuda/compile/walk.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "base/error.h"

namespace ingot::backend::cuda {

// The numbers in a kernel's parameters, shared by all variants of a body. A number that is known when the text is printed becomes a literal,
// and is recorded so that the launcher can check it.
class Numbers {
 public:
  using Number = kernels::FusedCudaArgs::Number;
  // `any_rows`: the numbers of rows and the strides between them stay parameters. A thread computes with them once.
  explicit Numbers(kernels::FusedCudaArgs& args, bool any_rows = false) : args_(args), any_rows_(any_rows) {}
  bool any_rows() const { return any_rows_; }
  bool is_literal(const Number&, const ir::Dim& value) const;
  // An i64 expression: a literal, or an element of p.number.
  std::string text(const Number&, const ir::Dim& value);
  std::string parameter(const Number&);

 private:
  kernels::FusedCudaArgs& args_;
  bool any_rows_;
};

class UnitText {
 public:
  using Number = kernels::FusedCudaArgs::Number;
  using Variant = kernels::FusedCudaArgs::Variant;

  UnitText(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Walk& walk, const Variant& variant, Numbers& numbers, std::vector<ir::Dim>& sizes)
      : body(body), layouts(layouts), walk(walk), variant(variant), numbers(numbers), sizes(sizes), unit(variant.vector), index(variant.wide ? "u64" : "u32") {}

  template <class... A>
  void line(fmt::format_string<A...> text, A&&... a) {
    out.append(2 * static_cast<size_t>(depth), ' ');
    out += fmt::format(text, std::forward<A>(a)...);
    out += '\n';
  }
  void open(const std::string& head);
  void close();
  void unroll(const char* name, int n);  // opens a loop

  std::string size(const ir::Dim&);
  std::string stride(size_t operand, size_t axis);
  std::string dim(size_t operand, size_t axis);
  std::string units_text();    // of the row
  std::string lanes() const;   // number of threads that share a row

  // Declares lane, row, own and the coordinates c<group> of the outer groups. For a tile: lane, and the places o<group> of the tile.
  void find_row();
  // Declares what units() does for a tile. `transposed`: adjacent threads are neighbours along the group `across`, else along the last one.
  void units_of_tile(bool transposed);
  // Where the thread's unit u is in a tile of shared memory whose inner axis adjacent threads share, or (transposed) do not.
  static std::string place_in_tile(bool transposed) { return transposed ? "[threadIdx.x % 32u][threadIdx.x / 32u + u * 8u]" : "[threadIdx.x / 32u + u * 8u][threadIdx.x % 32u]"; }
  // Declares j: the thread's units, their coordinates c<group>[u], and whether each exists (live[u]). Units past the end read the last one again.
  void units(const std::string& first);
  // Offset in elements over the groups [from, to). `load`: an instruction whose guards shift it, or -1. `element`: of element v of the unit.
  std::string offset(size_t operand, int load, size_t from, size_t to, bool element);
  std::string coordinate(size_t group, bool element) const;
  // The coordinate on the operand; guarded loads are shifted.
  std::string shifted(int load, size_t group, bool element);

  const FusedBody& body;
  const std::vector<StridedLayout>& layouts;
  const Walk& walk;
  const Variant& variant;
  Numbers& numbers;
  std::vector<ir::Dim>& sizes;
  int unit;           // elements of a unit
  std::string index;  // the type of indices
  std::string out;    // the text so far
  int depth = 0;      // of indentation

 private:
  void find_tile();
  std::string extent(size_t group, int per = 1);
  std::string divided(const std::string& x, size_t group, int per = 1);
  ir::Dim row_units() const;
  bool exact() const;
};

}  // namespace ingot::backend::cuda
