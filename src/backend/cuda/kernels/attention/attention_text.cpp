#include "backend/cuda/kernels/attention/attention_text.h"

#include <algorithm>
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
    args_.sizes = static_cast<uint32_t>(4 + text_.sizes().size());
    args_.numbers = text_.numbers();
    args_.known = text_.known();
    out.printed.shared = fmt::format("struct {}@P {{ {}u64 status; void* pointer[{}]; i64 number[{}]; }};\n", args_.boxes() ? "alignas(64) " : "",
                                     args_.boxes() ? "unsigned long boxes[3][16]; " : "", layouts_.size(), std::max<size_t>(1, args_.numbers.size())) +
                         element;
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

  std::string kernel(int variant) {
    const Args::Shape shape = args_.shape(variant);
    const uint32_t queries = shape.queries();
    std::string_view h = memory_type(type_);
    size_t result = layouts_.size() - 1;
    std::string out;
    if (shape.boxes) out += "#ifdef INGOT_WARPGROUPS\n" + by_boxes(shape) + "#else\n";
    out += "  after_others();\n";
    std::string s = text_.number({Number::size, 0, 0}, a_.s), t = text_.number({Number::size, 1, 0}, a_.t);
    out += fmt::format("  const i64 tiles = ({} + {}) / {};\n", s, queries - 1, queries);
    out += "  i64 rest = blockIdx.x / tiles;\n";
    std::string arguments, offsets[4];
    const size_t operands[4] = {0, 1, 2, result};
    for (size_t b = batch_; b-- > 0;) {
      std::string n = text_.number({Number::dim, static_cast<uint8_t>(result), static_cast<uint8_t>(b)}, layouts_[result].dims[b]);
      out += b > 0 ? fmt::format("  const i64 c{} = rest % {};\n  rest /= {};\n", b, n, n) : "  const i64 c0 = rest;\n";
    }
    for (size_t b = 0; b < batch_; ++b) {
      arguments += fmt::format(", c{}", b);
      for (size_t k = 0; k < 4; ++k) {
        std::string step = text_.stride(operands[k], b);
        if (step != "0ll") offsets[k] += fmt::format(" + c{} * {}", b, step);
      }
    }
    if (args_.filled) {
      const size_t k = args_.filled_operand();
      out +=
          fmt::format("  const i64 room = {}, wanted = ((const i64*)p.pointer[{}])[c0 * {}], keys = wanted < 0 ? 0 : wanted < room ? wanted : room;\n", t, k, text_.stride(k, 0));
      t = "keys";
    }
    // Scores without a mask are scaled in the exponent.
    const bool later = mask_ == nullptr && a_.scale > 0;
    const std::string scales = literal(later ? 1.0 : a_.scale, DType::f32) + ", " + literal(later ? a_.scale * log2_e : log2_e, DType::f32);
    auto pointer = [&](size_t k) { return fmt::format("({}{}*)p.pointer[{}]{}", k < 3 ? "const " : "", h, operands[k], offsets[k]); };
    // With a causal mask the last queries have most to do, so they start first.
    auto call = [&](const std::string& function, const std::string& shape_text) {
      out += fmt::format("  {}<{}, {}, {}, {}>({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, (i64)({}) * {}, {},\n", function, args_.depth, args_.width, shape_text, a_.causal,
                         pointer(0), pointer(1), pointer(2), pointer(3), text_.stride(0, batch_), text_.stride(1, batch_), text_.stride(2, batch_), text_.stride(result, batch_), s,
                         t, a_.causal ? "tiles - 1 - blockIdx.x % tiles" : "blockIdx.x % tiles", queries, scales);
      out += fmt::format("    [&](i64 s, i64 t, f32 score) {{ return @mask(p{}, s, t, score); }});\n", arguments);
    };
    if (shape.groups > 0 && !shape.boxes) {
      out += "#ifdef INGOT_WARPGROUPS\n";
      call("attend_in_groups", fmt::format("{}, {}, {}, {}, {}", shape.groups, shape.keys, shape.stages, shape.overlap, args_.columns));
      out += "#else\n";
    }
    const Args::Shape alone = shape.alone();
    call("attend", fmt::format("{}, {}, {}, {}", alone.warps, alone.splits, alone.keys, variant != Args::any_address));
    return shape.groups > 0 ? out + "#endif\n" : out;
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
