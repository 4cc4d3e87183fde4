#include "backend/cuda/kernels/gemm/epilogue_text.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/expression.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/gemm/tiles/run/tuning.h"
#include "base/error.h"

namespace ingot::backend::cuda {

using Args = kernels::GemmArgs;
using Number = kernels::CudaNumber;
using Kind = Instruction::Kind;

namespace {

class Printer {
 public:
  Printer(const FusedBody& body, const std::vector<StridedLayout>& layouts) : b_(body), layouts_(layouts), column_(body.outer.size()), text_(layouts, 0, false) {}

  GemmText run(const GemmSite& site, std::span<const GemmCompiler* const> implementations) {
    const EmittedPrologue* prologue = site.prologue ? &*site.prologue : nullptr;
    args_.parts_of_b = static_cast<uint8_t>(site.gemm.b.size());
    args_.gated = site.gemm.gated;
    const bool experts = site.gemm.row_ends != nullptr;
    has_columns_ = site.b_along_k && !experts;
    args_.type = site.gemm.type;
    std::string finish = finish_text();
    args_.b_type = site.gemm.encoding ? site.gemm.encoding->storage : site.gemm.type;
    args_.map = site.map;
    args_.b_along_k = site.b_along_k;
    args_.stores = static_cast<uint8_t>(b_.stores.size());
    args_.row_rank = static_cast<uint8_t>(column_);
    args_.sizes = static_cast<uint32_t>(text_.sizes().size());
    for (size_t k = 0; k < b_.operands.size(); ++k) args_.operands.push_back({b_.operands[k], static_cast<uint8_t>(layouts_[k].dims.size() - column_ - 1)});
    args_.numbers = text_.numbers();
    args_.known = text_.known();
    if (prologue != nullptr) {
      args_.sources = prologue->sources;
      args_.row = prologue->length;
    }
    GemmText out;
    std::string more = prologue == nullptr ? "" : "@Made made; ";
    if (args_.parts_of_b > 1) more += fmt::format("u64 b_part[{}]; int b_part_from[{}]; ", args_.parts_of_b, args_.parts_of_b);
    if (experts) more = "Experts experts; ";
    out.printed.shared = fmt::format("{}struct @Body {{ u64 status; void* pointer[{}]; i64 number[{}]; {}}};\ntemplate <class Own> struct @P {{ Own own; @Body body; }};\n",
                                     prologue == nullptr ? "" : prologue->text, b_.operands.size(), std::max<size_t>(1, args_.numbers.size()), more) +
                         finish;
    std::vector<PrintedKernels::Kernel>& kernels = out.printed.kernels;
    for (const GemmCompiler* c : implementations) {
      PrintedGemm printed = c->print(site, args_, form_);
      args_.implementations.push_back({std::string(c->run.kernel), std::move(printed.args)});
      for (GemmKernel& k : printed.kernels) {
        // Kernels for any address are the same for several implementations.
        if (std::any_of(kernels.begin(), kernels.end(), [&](const PrintedKernels::Kernel& other) { return other.suffix == k.suffix; })) continue;
        const std::string cluster = k.cluster > 1 ? fmt::format("__cluster_dims__({}) ", k.cluster) : "";
        const std::string last = prologue != nullptr ? fmt::format(", @Front<{}>{{p.body.made}}", k.vectors) : experts ? ", p.body.experts" : "";
        std::string call = fmt::format("  {}(p.own, @Behind<{}>{{p.body}}{});\n", k.call, k.vectors, last);
        kernels.push_back(
            {std::move(k.suffix), fmt::format("{}__launch_bounds__({})", cluster, k.bounds), std::move(call), std::move(k.libraries), fmt::format("@P<{}>", k.parameters)});
      }
    }
    args_.name = out.printed.name("gemm");
    out.args = std::move(args_);
    out.sizes = text_.sizes();
    return out;
  }

 private:
  enum class Along { same, neighbours, strided };  // an operand's layout along N

  Along along(size_t operand) {
    const StridedLayout& x = layouts_[operand];
    Number stride{Number::stride, static_cast<uint8_t>(operand), static_cast<uint8_t>(column_)};
    if (x.dims.size() > column_ + 1) return Along::strided;
    if (is(x.dims[column_], 1) || is(x.strides[column_], 0)) {
      text_.take(stride, 0);
      return Along::same;
    }
    if (!is(x.strides[column_], 1)) return Along::strided;
    text_.take(stride, 1);
    args_.together.push_back(static_cast<uint8_t>(operand));
    return Along::neighbours;
  }

  // True if the tile kernels can copy the operand in whole boxes, which are of elements of A's size.
  bool in_boxes(size_t operand, Along how) {
    return how == Along::neighbours && ir::size_of(b_.operands[operand]) == ir::size_of(args_.type) && (column_ == 1 || merges(operand)) && merged_step(operand) != "0ll";
  }
  // The one stride of rows of several axes: that of the innermost axis of more than one element. Parameters of others are 0.
  std::string merged_step(size_t operand) {
    std::string out = text_.stride(operand, 0);
    for (size_t axis = 1; axis < column_; ++axis) {
      const std::string inner = text_.stride(operand, axis);
      if (inner == "0ll") continue;
      out = out == "0ll" || b_.outer[axis].is_constant() ? inner : fmt::format("({} != 0 ? {} : {})", inner, inner, out);
    }
    return out;
  }
  // True if rows of several axes have one stride in memory.
  bool merges(size_t operand) const {
    const StridedLayout& x = layouts_[operand];
    if (x.dims[column_ - 1] != b_.outer[column_ - 1]) return false;
    for (size_t axis = column_ - 1; axis-- > 0;) {
      if (x.dims[axis] != b_.outer[axis] || (!is(x.dims[axis], 1) && x.strides[axis] != x.dims[axis + 1] * x.strides[axis + 1])) return false;
    }
    return true;
  }
  // Where a row of the operand begins, as a function of the row. Empty if it is constant over rows.
  std::string rows_of(size_t operand) {
    if (column_ == 1 || merges(operand)) {
      if (column_ > 1) args_.merged.push_back(static_cast<uint8_t>(operand));
      const std::string step = merged_step(operand);
      return step == "0ll" ? "" : fmt::format("RowsOfOneAxis{{{}}}", step);
    }
    std::string extents, steps;
    bool moves = false;
    for (size_t axis = column_; axis-- > 0;) {
      const std::string step = text_.stride(operand, axis);
      moves = moves || step != "0ll";
      steps += (steps.empty() ? "" : ", ") + step;
      if (axis > 0) extents += fmt::format("{}(u32){}", extents.empty() ? "" : ", ", text_.size_as_parameter(b_.outer[axis]));
    }
    return moves ? fmt::format("RowsOfAxes<{}>{{{{{}}}, {{{}}}}}", column_, extents, steps) : "";
  }
  // The body's coordinates of element v.
  std::vector<std::string> coordinates() {
    std::vector<std::string> out{"at.column(v)"};
    std::string rest = "at.row(v)";
    for (size_t axis = column_; axis-- > 0;) {
      const std::string extent = axis > 0 ? "(u32)" + text_.size_as_parameter(b_.outer[axis]) : "";
      out.insert(out.begin(), axis > 0 ? fmt::format("(i64)((u32)({}) % {})", rest, extent) : rest);
      if (axis > 0) rest = fmt::format("(i64)((u32)({}) / {})", rest, extent);
    }
    return out;
  }

  // The rows per batch, if a load's only index is row / rows (like a bias per image) and the operand is contiguous along N; else nullopt.
  std::optional<ir::Dim> rows_of_batch(const Instruction& i) {
    const StridedLayout& x = layouts_[i.operand];
    if (column_ != 1 || i.in.size() != 1 || x.dims.size() != 3) return std::nullopt;
    const bool differs_by_batch_alone = is(x.dims[0], 1) && is(x.strides[1], 1) && !is(x.dims[1], 1);
    if (!differs_by_batch_alone) return std::nullopt;
    const Instruction& by = b_.code[i.in[0]];
    if (by.kind != Kind::map || by.op != ir::Op::floordiv) return std::nullopt;
    const Instruction &row = b_.code[by.in[0]], &rows = b_.code[by.in[1]];
    if (row.kind != Kind::index || row.axis != 0 || rows.kind != Kind::size) return std::nullopt;
    return rows.dim;
  }

  // Parts of the epilogue's text.
  struct Finish {
    std::string same, same_from;             // operands that are constant over rows, and how they are loaded
    std::string fetched;                     // those that tile kernels load before they multiply
    std::string held, held_from;             // operands of the rows
    std::string results, keep, put;          // results: declared, set, stored
    bool reads_far = false;                  // operands of rows that come in no box
    std::vector<std::string> brought;        // per instruction: the value of a load
  };

  // A load that is constant over rows.
  void take_load_once(size_t k, Along how, Finish& out) {
    const Instruction& i = b_.code[k];
    const std::string_view type = memory_type(b_.operands[i.operand]);
    const std::string from = fmt::format("(const {}*)p.pointer[{}]", type, i.operand);
    out.same += fmt::format("  alignas(16) {} m{}[{}];\n", type, k, how == Along::same ? "1" : "U::columns");
    if (how == Along::same) {
      out.same_from += fmt::format("    same.m{}[0] = *({});\n", k, from);
    } else {
      const size_t bytes = ir::size_of(b_.operands[i.operand]), before = form_.column_bytes;
      const bool early = bytes >= 2 && before + bytes <= kernels::gemm::tiles_tuning::max_column_bytes;
      if (early) {
        form_.column_bytes = static_cast<uint8_t>(before + bytes);
        out.fetched += fmt::format("      (({}*)(room + {} * Width))[c] = ({})[at];\n", type, before, from);
      }
      out.same_from += fmt::format("    at.template constants<Together, {}>(same.m{}, {});\n", early ? static_cast<int>(before) : -1, k, from);
    }
    out.brought[k] = fmt::format("value(same.m{}[{}])", k, how == Along::same ? "0" : "U::column_of(v)");
  }

  void take_load(size_t k, Finish& out) {
    const Instruction& i = b_.code[k];
    const std::string_view type = memory_type(b_.operands[i.operand]);
    if (const auto rows = rows_of_batch(i)) {
      text_.take({Number::stride, static_cast<uint8_t>(i.operand), 1}, 1);
      args_.together.push_back(static_cast<uint8_t>(i.operand));
      out.reads_far = true;
      out.held += fmt::format("  alignas(16) {} m{}[8];\n", type, k);
      out.held_from += fmt::format("    at.template load_of_batch<Together>(held.m{}, (const {}*)p.pointer[{}], {}, (u32){});\n", k, type, i.operand, text_.stride(i.operand, 2),
                                   text_.size_as_parameter(*rows));
      out.brought[k] = fmt::format("value(held.m{}[v])", k);
      return;
    }
    if (!i.in.empty()) return;
    const Along how = along(i.operand);
    if (how == Along::strided) return;
    const std::string from = fmt::format("(const {}*)p.pointer[{}]", type, i.operand), rows = rows_of(i.operand);
    if (rows.empty()) return take_load_once(k, how, out);
    if (how == Along::same) {
      out.reads_far = true;
      out.held += fmt::format("  {} m{}[U::rows];\n", type, k);
      out.held_from += fmt::format("#pragma unroll\n    for (int v = 0; v < 2 * U::rows; v += 2) held.m{}[U::row_of(v)] = ({})[{}(at.row(v))];\n", k, from, rows);
      out.brought[k] = fmt::format("value(held.m{}[U::row_of(v)])", k);
      return;
    }
    out.held += fmt::format("  alignas(16) {} m{}[8];\n", type, k);
    const std::string own = fmt::format("at.template load<Together>(held.m{}, {}, {});\n", k, from, rows);
    if (form_.boxed_in == kernels::TilesArgs::none && in_boxes(i.operand, how)) {
      form_.boxed_in = static_cast<uint8_t>(i.operand);
      out.held_from += fmt::format("    if constexpr (U::tiled) {{\n      from_boxes(held.m{}, tile);\n    }} else {{\n      {}    }}\n", k, own);
    } else {
      out.reads_far = true;
      out.held_from += "    " + own;
    }
    out.brought[k] = fmt::format("value(held.m{}[v])", k);
  }

  void take_store(size_t s, Finish& out) {
    const Store& store = b_.stores[s];
    const std::string_view type = memory_type(b_.operands[store.operand]);
    const std::string rows = rows_of(store.operand), to = fmt::format("({}*)p.pointer[{}], {}", type, store.operand, rows.empty() ? "RowsOfOneAxis{0ll}" : rows);
    out.results += fmt::format("    {} x{}[8];\n", value_type(b_.code[store.value].dtype), s);
    out.keep += fmt::format("  x{}[v] = r{};\n", s, store.value);
    const Along how = along(store.operand);
    out.put += fmt::format("    alignas(16) {} o{}[8];\n#pragma unroll\n    for (int v = 0; v < 8; v += 2) put2(o{} + v, x{}[v], x{}[v + 1]);\n", type, s, s, s, s);
    const std::string own = how == Along::neighbours ? fmt::format("at.template put<Together>({}, o{});\n", to, s)
                                                     : fmt::format("at.store_strided({}, {}, o{});\n", to, text_.stride(store.operand, column_), s);
    if (form_.boxed_out == kernels::TilesArgs::none && in_boxes(store.operand, how)) {
      form_.boxed_out = static_cast<uint8_t>(store.operand);
      out.put += fmt::format("    if constexpr (U::tiled) {{\n      to_boxes(tile, o{});\n    }} else {{\n      {}    }}\n", s, own);
    } else {
      out.put += "    " + own;
    }
  }

  // The epilogue of eight elements, whose places U gives (EightOfRow, PairsOfTwoRows): operands that are constant over rows, operands of these rows, the body.
  std::string finish_text() {
    Finish f;
    f.brought.resize(b_.code.size());
    for (size_t k = 0; k < b_.code.size(); ++k) {
      if (b_.code[k].kind == Kind::load) take_load(k, f);
    }
    for (size_t s = 0; s < b_.stores.size(); ++s) take_store(s, f);
    const std::string code = text_.code(b_, 0, coordinates(), {"sums[v]", "sums[8 + v]"}, f.brought, stores_halves(b_));
    return "template <class U>\nstruct @Same {\n" + f.same + "};\ntemplate <class U>\nstruct @HeldOf {\n" + f.held +
           "};\ntemplate <bool Together>\nstruct @Behind {\n  const @Body& p;\n" +
           fmt::format("  static constexpr bool boxed_in = {}, boxed_out = {}, reads_far = {};\n  static constexpr int column_bytes = {}, halves = {}, parts_of_b = {};\n",
                       form_.boxed_in != kernels::TilesArgs::none, form_.boxed_out != kernels::TilesArgs::none, f.reads_far, form_.column_bytes, args_.gated ? 2 : 1,
                       args_.parts_of_b) +
           boxed_row_text() + column_text() +
           "  template <class U> using SameOf = @Same<U>;\n  template <class U> using HeldBy = @HeldOf<U>;\n  typedef @HeldOf<EightOfRow> Held;\n" +
           "  template <int Width>\n  __device__ __forceinline__ void fetch_columns(char* room, int from, int end) const {\n    for (int c = threadIdx.x % 128; c < Width; c += "
           "128) {\n" +
           "      const int at = from + c < end ? from + c : end - 1;\n" + f.fetched + "    }\n  }\n" +
           "  template <class U>\n  __device__ __forceinline__ void columns(@Same<U>& same, const U& at) const {\n" + f.same_from + "  }\n" +
           "  template <class U>\n  __device__ __forceinline__ void rows(@HeldOf<U>& held, const U& at, u32 tile) const {\n" + f.held_from + "  }\n" +
           "  template <class U>\n  __device__ __forceinline__ void behind(const U& at, const f32* sums, const @Same<U>& same, const @HeldOf<U>& held, u32 tile) const {\n" +
           "    u64* const status = (u64*)p.status;\n" + f.results + "#pragma unroll\n    for (int v = 0; v < 8; ++v) {\n" + code + f.keep + "    }\n" + f.put + "  }\n" +
           "  __device__ __forceinline__ void load(Held& held, i64 s, i64 t) const { rows(held, EightOfRow{s, t, true}, 0); }\n" +
           "  __device__ __forceinline__ void operator()(i64 s, i64 t, const f32* sums, const Held& held, bool inside) const {\n    const EightOfRow at = {s, t, inside};\n" +
           "    @Same<EightOfRow> same;\n    columns(same, at);\n    behind(at, sums, same, held, 0);\n  }\n" +
           "  __device__ __forceinline__ void operator()(i64 s, i64 t, const f32* sums) const {\n    Held held;\n    load(held, s, t);\n    (*this)(s, t, sums, held, true);\n  "
           "}\n};\n";
  }

  // The address of a column of B that is contiguous along K: in the last part that begins at it or before.
  std::string column_text() {
    if (!has_columns_) return "";
    const std::string head = "  template <class B>\n  __device__ __forceinline__ const B* column_of(const GemmMatrices& matrices, i64 c) const {\n";
    if (args_.parts_of_b == 1) return head + "    return (const B*)matrices.b + c * matrices.b_step;\n  }\n";
    return head +
           fmt::format(
               "    int k = 0;\n#pragma unroll\n    for (int step = {}; step > 0; step /= 2) {{\n      if (k + step < {} && c >= p.b_part_from[k + step]) k += step;\n    }}\n",
               std::bit_floor(args_.parts_of_b), args_.parts_of_b) +
           "    return (const B*)p.b_part[k] + (c - p.b_part_from[k]) * matrices.b_step;\n  }\n";
  }

  // The address of an element of an operand that is stored in boxes.
  std::string boxed_row_text() {
    const std::string head = "  __device__ __forceinline__ void* boxed_row(i64 s, i64 t) const { return ";
    if (form_.boxed_out == kernels::TilesArgs::none) return head + "0; }\n";
    return head + fmt::format("({}*)p.pointer[{}] + s * {} + t; }}\n", memory_type(b_.operands[form_.boxed_out]), form_.boxed_out, merged_step(form_.boxed_out));
  }

  const FusedBody& b_;
  const std::vector<StridedLayout>& layouts_;
  const size_t column_;  // the axis of columns: the ones before it are rows
  ElementText text_;
  bool has_columns_ = false;  // of B, each contiguous
  Args args_;
  EpilogueForm form_;
};

}  // namespace

GemmText print_gemm(const GemmSite& site, std::span<const GemmCompiler* const> implementations) { return Printer(site.body, site.operands).run(site, implementations); }

}  // namespace ingot::backend::cuda
