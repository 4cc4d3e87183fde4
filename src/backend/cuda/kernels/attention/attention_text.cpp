#include "backend/cuda/kernels/attention/attention_text.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/compile/expression.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/kernels/attention/attention.cuh.h"
#include "backend/cuda/kernels/attention/attention_by_boxes.cuh.h"
#include "backend/cuda/kernels/attention/run/attention_args.h"
#include "backend/cuda/kernels/attention/run/tuning.h"
#include "base/error.h"

namespace ingot::backend::cuda {

using Args = kernels::AttentionCudaArgs;
using ir::DType;

namespace {

class Printer {
 public:
  Printer(const Attention& site, const FusedBody* mask, const std::vector<StridedLayout>& layouts, bool filled)
      : a_(site), type_(site.type), mask_(mask), layouts_(layouts), batch_(site.batch_rank), text_(layouts, 4, true) {
    args_.filled = filled;
  }

  EmittedAttention run(int only) {
    args_.only = static_cast<uint8_t>(only);
    args_.batch_rank = static_cast<uint8_t>(batch_);
    args_.depth = static_cast<uint16_t>(a_.d.value());
    args_.width = static_cast<uint16_t>(a_.e.value());
    size_t loads = layouts_.size() - 4 - args_.filled;
    for (size_t k = 0; k < layouts_.size(); ++k) {
      if (args_.filled && k + 2 == layouts_.size()) {
        args_.operands.push_back({DType::i64});
        continue;
      }
      bool load = k >= 3 && k < 3 + loads;
      args_.operands.push_back({load ? mask_->operands[k - 3] : type_, static_cast<uint8_t>(layouts_[k].dims.size() - batch_ - 2)});
    }
    args_.rows = rows(only);
    // Of as many keys as queries there are never enough for parts.
    args_.parts = only == Args::by_sizes && a_.s.constant().value_or(1) <= kernels::attention_cuda_tuning::few_queries && !(a_.s == a_.t);
    args_.heads = heads_with_one_key();
    args_.columns = mask_ != nullptr && adds_to_columns(mask_->stores[0].value);
    std::string element = mask_text();
    EmittedAttention out;
    std::vector<CodeUnit::Library> libraries = matrix_libraries(type_, {true, false});
    libraries.push_back(attention_text);
    for (int v = 0; v < Args::measured; ++v) {
      if (only == Args::by_sizes ? v >= Args::variants : v != only && v != Args::any_address) continue;
      const Args::Shape shape = args_.shape(v);
      out.printed.kernels.push_back({std::to_string(v), fmt::format("__launch_bounds__({}, INGOT_BLOCKS({}))", shape.threads(), shape.blocks), kernel(v), libraries});
    }
    if (args_.parts) {
      const Args::Shape shape = args_.shape_of_parts();
      for (const bool heads : {false, true}) {
        if (heads && args_.heads == 0) continue;
        const std::string prefix = heads ? "heads_" : "";
        out.printed.kernels.push_back({prefix + "parts", fmt::format("__launch_bounds__({})", shape.threads()), kernel_of_parts(heads), libraries, "@OfParts"});
        out.printed.kernels.push_back(
            {prefix + "join", fmt::format("__launch_bounds__({})", kernels::attention_cuda_tuning::join_threads), kernel_that_joins(heads), libraries, "@OfParts"});
      }
    }
    args_.sizes = static_cast<uint32_t>(4 + text_.sizes().size());
    args_.numbers = text_.numbers();
    args_.known = text_.known();
    out.printed.shared = fmt::format("struct {}@P {{ {}u64 status; void* pointer[{}]; i64 number[{}]; }};\n", args_.boxes() ? "alignas(64) " : "",
                                     args_.boxes() ? "unsigned long boxes[3][16]; " : "", layouts_.size(), std::max<size_t>(1, args_.numbers.size())) +
                         element + (args_.parts ? "struct @OfParts : @P { u64 sums; i64 parts, rows; };\n" : "");
    out.name = args_.name = out.printed.name("attention");
    out.arguments = kernels::serialise(args_);
    out.sizes = text_.sizes();
    return out;
  }

 private:
  using Number = Args::Number;
  static constexpr double log2_e = std::numbers::log2e;
  std::string coordinate(size_t axis) const { return axis < batch_ ? fmt::format("c{}", axis) : axis == batch_ ? "s" : "t"; }

  Args::Rows rows(int only) const {
    const uint16_t head = std::max(args_.depth, args_.width);
    using namespace kernels::attention_cuda_tuning;
    const bool plain = mask_ == nullptr && !a_.causal && !args_.filled, boxes = plain && a_.scale > 0 && batch_ <= Args::max_box_axes && head <= Args::max_boxed_head;
    if (only != Args::by_sizes) return boxes ? Args::in_boxes : Args::short_rows;
    const int64_t s = a_.s.constant().value_or(0), t = a_.t.constant().value_or(0);
    if (s < long_queries) return Args::short_rows;
    if (t > 0 && t <= one_iteration) return Args::one_iteration_of_keys;
    if (!plain || t < min_boxed_keys) return Args::long_rows;
    return boxes && (head <= narrow_head || head > usual_head || s >= very_long_queries) ? Args::in_boxes : Args::unmasked;
  }

  const Instruction& code(Reg r) const { return mask_->code[r]; }
  // True if a value is the same for all queries and independent of scores.
  bool of_key(Reg r) const {
    const Instruction& i = code(r);
    for (Reg in : i.in) {
      if (!of_key(in)) return false;
    }
    auto is = [](const ir::Dim& d, int64_t n) { return d.is_constant() && d.value() == n; };
    switch (i.kind) {
      case Instruction::Kind::literal:
      case Instruction::Kind::size:
      case Instruction::Kind::map: return true;
      case Instruction::Kind::index: return i.axis != batch_;
      case Instruction::Kind::load: return i.lower.empty() && (is(layouts_[3 + i.operand].strides[batch_], 0) || is(layouts_[3 + i.operand].dims[batch_], 1));
      default: return false;
    }
  }
  // True if the mask adds to each score a number that depends on the key only. A key that is not seen gets -infinity.
  bool adds_to_columns(Reg r) const {
    const Instruction& i = code(r);
    if (i.kind == Instruction::Kind::accumulator) return true;
    if (i.kind != Instruction::Kind::map || i.dtype != DType::f32) return false;
    auto hides = [&](Reg v) { return code(v).kind == Instruction::Kind::literal && code(v).number.to_double() == -std::numeric_limits<double>::infinity(); };
    if (i.op == ir::Op::add) return (adds_to_columns(i.in[0]) && of_key(i.in[1])) || (adds_to_columns(i.in[1]) && of_key(i.in[0]));
    if (i.op == ir::Op::select) return of_key(i.in[0]) && ((adds_to_columns(i.in[1]) && hides(i.in[2])) || (adds_to_columns(i.in[2]) && hides(i.in[1])));
    return false;
  }

  // Prints the mask as a function of one score.
  std::string mask_text() {
    std::string out = "__device__ __forceinline__ f32 @mask(const @P& p";
    std::vector<std::string> coordinates;
    for (size_t axis = 0; axis < batch_ + 2; ++axis) coordinates.push_back(coordinate(axis));
    for (size_t b = 0; b < batch_; ++b) out += fmt::format(", i64 c{}", b);
    out += ", i64 s, i64 t, f32 score) {\n";
    if (mask_ == nullptr) return out + "  return score;\n}\n";
    out += "  [[maybe_unused]] u64* const status = (u64*)p.status;\n";
    out += text_.code(*mask_, 3, coordinates, {"score"});
    return out + fmt::format("  return (f32)r{};\n}}\n", mask_->stores[0].value);
  }

  // The kernel's text for shapes with TMA boxes: how many heads there are, and the place of each.
  std::string by_boxes(const Args::Shape& shape) {
    const size_t operands[4] = {0, 1, 2, layouts_.size() - 1};
    const std::string_view h = memory_type(type_);
    const std::string s = text_.number({Number::size, 0, 0}, a_.s), t = text_.number({Number::size, 1, 0}, a_.t);
    std::string heads = "1", locate, offset;
    for (size_t b = batch_; b-- > 0;) {
      const std::string n = text_.number({Number::dim, static_cast<uint8_t>(operands[3]), static_cast<uint8_t>(b)}, layouts_[operands[3]].dims[b]);
      heads += fmt::format(" * (int){}", n);
      locate += b > 0 ? fmt::format("    const int c{} = rest % (int){};\n    rest /= (int){};\n", b, n, n) : "    const int c0 = rest;\n";
      offset += fmt::format(" + c{} * {}", b, text_.stride(operands[3], b));
      for (size_t k = 0; k < 3; ++k) locate += fmt::format("    head.at[{}][{}] = {} != 0 ? c{} : 0;\n", k, batch_ - 1 - b, text_.stride(operands[k], b), b);
    }
    // A short first iteration was slower for heads of other sizes.
    const int64_t keys = args_.depth == 64 && args_.width == 64 ? a_.t.constant().value_or(0) : 0;
    const auto inside = static_cast<uint32_t>(keys % shape.keys), first = inside == 0 ? shape.keys : (inside + 15) / 16 * 16;
    return fmt::format("  attend_by_boxes<{}, {}, {}, {}, {}, {}, {}>(p.boxes, {}, (int){}, (int){}, {}, {}, [&](int rest) {{\n", args_.depth, args_.width, shape.groups,
                       shape.keys, first, shape.stages, h, text_.stride(operands[3], batch_), s, t, heads, literal(a_.scale * log2_e, DType::f32)) +
           fmt::format("    HeadAt<{}> head{{}};\n", h) + locate + fmt::format("    head.out = ({}*)p.pointer[{}]{};\n    return head;\n  }});\n", h, operands[3], offset);
  }

  // Where a block of queries is: the text that finds its head, its first query, and what of Q, K, V and the result is the head's.
  struct Place {
    std::string text, first_query, arguments, offsets[4];
  };
  std::array<size_t, 4> matrices() const { return {0, 1, 2, layouts_.size() - 1}; }
  Place place_of(uint32_t queries, std::string_view block) {
    Place out;
    out.text += fmt::format("  const i64 tiles = ({} + {}) / {};\n", text_.number({Number::size, 0, 0}, a_.s), queries - 1, queries);
    out.text += fmt::format("  i64 rest = {} / tiles;\n", block);
    // With a causal mask the last queries have most to do, so they start first.
    out.first_query = fmt::format("(i64)({}{} % tiles) * {}", a_.causal ? "tiles - 1 - " : "", block, queries);
    add_batches(out, batch_);
    return out;
  }
  // Of the heads that share keys, which are the rows of a block: one query.
  Place place_of_heads(std::string_view block) {
    Place out;
    out.text += fmt::format("  i64 rest = {};\n", block);
    out.first_query = "0ll";
    add_batches(out, batch_ - 1);
    return out;
  }
  // The first `axes` of the heads' axes, whose coordinates are in `rest`.
  void add_batches(Place& out, size_t axes) {
    const size_t result = matrices()[3];
    for (size_t b = axes; b-- > 0;) {
      std::string n = text_.number({Number::dim, static_cast<uint8_t>(result), static_cast<uint8_t>(b)}, layouts_[result].dims[b]);
      out.text += b > 0 ? fmt::format("  const i64 c{} = rest % {};\n  rest /= {};\n", b, n, n) : "  const i64 c0 = rest;\n";
    }
    for (size_t b = 0; b < axes; ++b) {
      out.arguments += fmt::format(", c{}", b);
      for (size_t k = 0; k < 4; ++k) {
        std::string step = text_.stride(matrices()[k], b);
        if (step != "0ll") out.offsets[k] += fmt::format(" + c{} * {}", b, step);
      }
    }
  }
  // The heads of the innermost axis, if they certainly share keys and values, and are so few that a block has them as rows. 0: none.
  uint8_t heads_with_one_key() const {
    if (!args_.parts || a_.causal || batch_ < 2) return 0;
    const ir::Dim& heads = layouts_[matrices()[3]].dims[batch_ - 1];
    const bool shared = std::all_of(layouts_.begin() + 1, layouts_.begin() + 3, [&](const StridedLayout& x) { return x.strides[batch_ - 1] == ir::Dim(0); });
    const int64_t n = heads.constant().value_or(1);
    return shared && n > 1 && n <= kernels::attention_cuda_tuning::few_queries ? static_cast<uint8_t>(n) : 0;
  }
  std::string pointer(const Place& place, size_t k) const {
    return fmt::format("({}{}*)p.pointer[{}]{}", k < 3 ? "const " : "", memory_type(type_), matrices()[k], place.offsets[k]);
  }
  // Scores without a mask are scaled in the exponent.
  bool scales_later() const { return mask_ == nullptr && a_.scale > 0; }
  std::string unit() const { return literal(scales_later() ? a_.scale * log2_e : log2_e, DType::f32); }

  // The number of keys as `keys`, if it is in memory.
  std::string keys_text() {
    if (!args_.filled) return "";
    const size_t k = args_.filled_operand();
    return fmt::format("  const i64 room = {}, wanted = ((const i64*)p.pointer[{}])[c0 * {}], keys = wanted < 0 ? 0 : wanted < room ? wanted : room;\n",
                       text_.number({Number::size, 1, 0}, a_.t), k, text_.stride(k, 0));
  }
  // `more`: a last argument. With `heads` the rows are heads that share keys.
  std::string call(const Place& place, std::string_view function, const std::string& shape, std::string_view more = "", bool heads = false) {
    const std::string s = heads ? fmt::format("{}ll", args_.heads) : text_.number({Number::size, 0, 0}, a_.s), t = args_.filled ? "keys" : text_.number({Number::size, 1, 0}, a_.t);
    return fmt::format("  {}<{}, {}, {}, {}>({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},\n", function, args_.depth, args_.width, shape, a_.causal, pointer(place, 0),
                       pointer(place, 1), pointer(place, 2), pointer(place, 3), text_.stride(0, batch_ - heads), text_.stride(1, batch_), text_.stride(2, batch_),
                       text_.stride(matrices()[3], batch_ - heads), s, t, place.first_query, literal(scales_later() ? 1.0 : a_.scale, DType::f32), unit()) +
           fmt::format("    [&](i64 s, i64 t, f32 score) {{ return @mask(p{}, {}, t, score); }}{});\n", place.arguments, heads ? "s, 0ll" : "s", more);
  }
  static std::string warps_of(const Args::Shape& shape, bool aligned) { return fmt::format("{}, {}, {}, {}", shape.warps, shape.splits, shape.keys, aligned); }

  std::string kernel(int variant) {
    const Args::Shape shape = args_.shape(variant);
    std::string out;
    if (shape.boxes) out += "#ifdef INGOT_WARPGROUPS\n" + by_boxes(shape) + "#else\n";
    const Place place = place_of(shape.queries(), "blockIdx.x");
    out += "  after_others();\n" + place.text + keys_text();
    if (shape.groups > 0 && !shape.boxes) {
      out += "#ifdef INGOT_WARPGROUPS\n" +
             call(place, "attend_in_groups", fmt::format("{}, {}, {}, {}, {}", shape.groups, shape.keys, shape.stages, shape.overlap, args_.columns)) + "#else\n";
    }
    out += call(place, "attend", warps_of(shape.alone(), variant != Args::any_address));
    return shape.groups > 0 ? out + "#endif\n" : out;
  }

  // Sums are [parts][rows][width + 4].
  std::string kernel_of_parts(bool heads) {
    const Args::Shape shape = args_.shape_of_parts();
    const Place place = heads ? place_of_heads("block") : place_of(shape.queries(), "block");
    return "  after_others();\n  const i64 block = blockIdx.x / p.parts, part = blockIdx.x % p.parts;\n" + place.text + keys_text() +
           fmt::format("  const PartOfKeys of = {{(f32*)p.sums + (part * p.rows + block * {}) * {}, (int)part, (int)p.parts}};\n", shape.queries(), args_.width + 4) +
           call(place, "attend", warps_of(shape, true), ", of", heads);
  }
  // A warp for each query, or head: few are one block's.
  std::string kernel_that_joins(bool heads) {
    const uint32_t queries = args_.shape_of_parts().queries();
    const std::string s = heads ? fmt::format("{}ll", args_.heads) : text_.number({Number::size, 0, 0}, a_.s);
    const Place place = heads ? place_of_heads("block") : place_of(queries, "block");
    return "  after_others();\n" +
           fmt::format("  const i64 query = ((i64)blockIdx.x * {} + threadIdx.x) / 32, block = query / {}, s = query % {}, row = block * {} + s;\n",
                       kernels::attention_cuda_tuning::join_threads, s, s, queries) +
           "  if (row >= p.rows) return;\n" + place.text +
           fmt::format("  join_parts<{}>((const f32*)p.sums + row * {}, (int)p.parts, (int)p.rows, {}, {} + s * {});\n", args_.width, args_.width + 4, unit(), pointer(place, 3),
                       text_.stride(matrices()[3], batch_ - heads));
  }

  const Attention& a_;
  DType type_;
  const FusedBody* mask_;
  const std::vector<StridedLayout>& layouts_;
  size_t batch_;
  ElementText text_;
  Args args_;
};

}  // namespace

std::string_view attention_text() {
  static const std::string all = std::string(attention_cuh) + std::string(attention_by_boxes_cuh);
  return all;
}

EmittedAttention emit_attention(const Attention& site, const FusedBody* mask, const std::vector<StridedLayout>& layouts, bool filled, int only) {
  return Printer(site, mask, layouts, filled).run(only);
}

}  // namespace ingot::backend::cuda
