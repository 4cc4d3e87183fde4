// What all kernels of attention read: by blocks of queries and by single queries (attention_queries), of keys in one piece and in pages (attention_pages, attention_pages_queries,
// and of keys with scales: attention_pages_scaled, attention_pages_queries_scaled).
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"
#include "kernels/attention/run/attention_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels::attention {

struct Constants {
  double scale;
  bool causal, filled, in_order;
  int batch_rank;
  std::shared_ptr<const Program> mask;
  bool paged = false, scaled = false;

  size_t optional() const {
    return size_t{filled} + paged + 2 * size_t{scaled};
  }  // operands between what the mask loads and the result: scales, the block table, the numbers of keys
};
// RunKernel::load; the result is Constants. load_paged: of a kernel that reads pages, whose steps have a block table and `filled`. load_scaled: of one whose keys and values in pages have scales.
std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes);
std::shared_ptr<const void> load_paged(std::span<const std::byte> bytes, size_t operands, size_t sizes);
std::shared_ptr<const void> load_scaled(std::span<const std::byte> bytes, size_t operands, size_t sizes);

// A step's operands and sizes, checked.
struct Problem {
  int64_t s, t, d, e, batch = 1;
  int64_t page = 0;  // keys of a page: a power of two,
  int page_bits = 0;  // this one
  std::vector<int64_t> batch_dims;
  ir::DType type;  // of queries and results; scores are doubles for f64, else floats
  ir::DType key_type;  // of keys and values: of pages maybe another one
  Bound mask;
  bool has_mask = false, mask_same_rows = false;  // it is the same for every query of a batch element (padding)
  size_t mask_bytes = 0;  // of scratch
};
// Error (format) if they do not fit.
Problem checked(const Call&);

// Q, K, V and the result, operands 0 to 3, of one batch element.
class Operands {
 public:
  Operands(const Call& call, const Constants& c, const Problem& p) : call_(call), c_(c), p_(p) {}

  // `next`: the element after this one, whose first rows are prefetched.
  void go_to(int64_t batch, int64_t next);
  const TensorRef& operand(size_t k) const { return k == 3 ? call_.operands.back() : call_.operands[k]; }
  int64_t row_stride(size_t k) const { return operand(k).strides[c_.batch_rank]; }
  int64_t column_stride(size_t k) const { return operand(k).strides[c_.batch_rank + 1]; }
  // A row of operand k: Q, K, V or the result.
  std::byte* address(size_t k, int64_t row) const { return base_[k] + row * row_stride(k) * static_cast<int64_t>(ir::size_of(operand(k).dtype)); }
  // Elements of a row as floats, or as doubles.
  void read(size_t k, int64_t row, void* to, int64_t n) const { block_ops().load(operand(k).dtype, to, address(k, row), column_stride(k), n); }

  // Rows further down, and the first ones of the next batch element (tuning.h: ahead).
  void fetch(size_t k, int64_t row) const { prefetch(k, base_[k], row); }
  void fetch_of_next(size_t k, int64_t row) const { prefetch(k, next_[k], row); }
  // How many rows of keys, and of values, lie one after the other from `row` on, before `end`.
  int64_t together(int64_t row, int64_t end) const { return end - row; }
  template <class T>
  void read_scales(size_t, int64_t, T*, int64_t) const {}  // rows in one piece have none

  int64_t at[16] = {};  // the batch element's coordinates; the mask's row is added
  int64_t keys = 0;  // of the batch element,
  int64_t first = 0;  // and the one that the first query stands at

 protected:
  void locate(int64_t batch, int64_t* at) const;
  std::byte* begin(const TensorRef&, const int64_t* at, int first_axis = 0) const;
  void prefetch(size_t k, const std::byte* base, int64_t row) const;

  const Call& call_;
  const Constants& c_;
  const Problem& p_;
  int64_t batch_ = -1;
  std::byte *base_[4] = {}, *next_[3] = {};
};

// The same with keys and values in pages: operands 1 and 2 have an axis of pages in place of that of sequences.
class PagedOperands : public Operands {
 public:
  using Operands::Operands;
  // Error (invalid_input) if a page that the sequence fills is not there.
  void go_to(int64_t batch, int64_t next);
  std::byte* address(size_t k, int64_t row) const {
    if (k == 0 || k == 3) return Operands::address(k, row);
    return Operands::address(k, row & (p_.page - 1)) + page_of(row) * operand(k).strides[0] * static_cast<int64_t>(ir::size_of(p_.key_type));
  }
  // The scales of n rows of operand k, keys or values, as floats.
  template <class T>
  void read_scales(size_t k, int64_t row, T* to, int64_t n) const {
    const TensorRef& x = call_.operands[call_.operands.size() - (k == 1 ? 5 : 4)];
    const std::byte* base = begin(x, at, 1);
    const int64_t step = x.strides[c_.batch_rank];
    for (int64_t end = row + n, count = 0; row < end; row += count, to += count) {
      count = together(row, end);
      block_ops().load(x.dtype, to, base + (page_of(row) * x.strides[0] + (row & (p_.page - 1)) * step) * static_cast<int64_t>(ir::size_of(x.dtype)), step, count);
    }
  }
  // Rows of a page are neighbours, which hardware prefetches.
  void fetch(size_t, int64_t) const {}
  void fetch_of_next(size_t, int64_t) const {}
  int64_t together(int64_t row, int64_t end) const { return std::min(end - row, p_.page - (row & (p_.page - 1))); }

 private:
  int64_t page_of(int64_t row) const;
  const TensorRef& table() const { return call_.operands[call_.operands.size() - 3]; }
};

// The loops of the softmax, for scores of either type.
template <class T>
struct Scores {
  // to[r, c] = from[r, c] * by[r * by_step]
  static void scale_rows(T* to, int64_t to_row, const T* from, int64_t from_row, const T* by, int64_t by_step, int64_t rows, int64_t columns);
  // to[i] = op(to[i], x[i])
  static void apply(ir::Op op, T* to, const T* x, int64_t n);
  // BlockOps::softmax_rows
  static void softmax_rows(T* a, int64_t row, int64_t rows, int64_t n, T* largest, T* total, T* keep);
};

}  // namespace ingot::kernels::attention
