#include "runtime/call_checks.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "plan/describe.h"
#include "runtime/strided.h"

namespace ingot::runtime {

namespace {

// "2 inputs (x, y)"
std::string list_text(const char* what, std::span<const plan::Binding> bindings) {
  std::string s = fmt::format("{} {}{} (", bindings.size(), what, bindings.size() == 1 ? "" : "s");
  for (const plan::Binding& b : bindings) s += (&b == bindings.data() ? "" : ", ") + b.name;
  return s + ")";
}

std::string given_text(size_t n) { return fmt::format("{} {}", n, n == 1 ? "is" : "are"); }

[[noreturn]] void refuse_size(const LoadedFunction& loaded, std::span<const int64_t> symbols, size_t input, size_t axis, const HostTensor& given, int64_t needed) {
  const plan::Function& f = *loaded.function;
  plan::SizeRef size = f.bindings[input].dims[axis];
  bool fixed = f.sizes.code[size].op == SizeInstruction::Op::constant;
  std::string what = fmt::format("axis {} of input \"{}\" (shape {}) has size {}", axis, f.bindings[input].name, shape_text(given), given.dims[axis]);
  for (size_t s = 0; s < loaded.symbols.size(); ++s) {
    const plan::SymbolSource& source = loaded.symbols[s];
    if (source.binding != input || source.axis != axis || source.size.plain()) continue;
    const plan::Symbol& symbol = f.symbols[s];
    const std::string upto = symbol.max == INT64_MAX ? "" : std::to_string(source.size.size_at(symbol.max));
    Error problem(Code::invalid_input,
                  fmt::format("{}, but the plan was built for sizes {}..{} in steps of {} there", what, source.size.size_at(symbol.min), upto, source.size.factor));
    throw problem.fix(symbols[s] < symbol.max ? fmt::format("give {} or {}", needed, source.size.size_at(symbols[s] + 1)) : fmt::format("give {}", needed));
  }
  throw Error(Code::invalid_input, fixed ? fmt::format("{}, but the plan was built for {} there", what, needed)
                                         : fmt::format("{}, but the sizes of the other inputs make it {} = {}", what, plan::size_text(f, size), needed))
      .fix(fixed ? "give this size, or compile with a range for this axis" : "give inputs whose sizes agree");
}

}  // namespace

void check_inputs(const LoadedFunction& loaded, std::span<const HostTensor> inputs) {
  const plan::Function& f = *loaded.function;
  if (inputs.size() != loaded.inputs)
    fail(Code::invalid_input, "the plan takes {}, but {} given", list_text("input", std::span(f.bindings).first(loaded.inputs)), given_text(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::Binding& b = f.bindings[i];
    if (inputs[i].dtype != b.dtype) {
      Error problem(Code::invalid_input, fmt::format("input \"{}\" is {}, but the plan was built for {}", b.name, ir::torch_name_of(inputs[i].dtype), ir::torch_name_of(b.dtype)));
      throw problem.fix(fmt::format("convert it to {}", ir::torch_name_of(b.dtype)));
    }
    if (inputs[i].rank != static_cast<int>(b.dims.size())) {
      std::string dims;
      for (plan::SizeRef d : b.dims) dims += (dims.empty() ? "" : ", ") + plan::size_text(f, d);
      fail(Code::invalid_input, "input \"{}\" has rank {} (shape {}), but the plan was built for rank {}: [{}]", b.name, inputs[i].rank, shape_text(inputs[i]), b.dims.size(),
           dims);
    }
  }
}

void check_ranges(const LoadedFunction& loaded, std::span<const int64_t> symbols, std::span<const HostTensor> inputs) {
  const plan::Function& f = *loaded.function;
  for (size_t s = 0; s < symbols.size(); ++s) {
    const plan::Symbol& symbol = f.symbols[s];
    if (symbols[s] >= symbol.min && symbols[s] <= symbol.max) continue;
    const plan::SymbolSource& source = loaded.symbols[s];
    if (source.binding == UINT32_MAX) fail(Code::internal, "size {} has no usual value", symbol.name);
    Error problem(Code::invalid_input,
                  fmt::format("axis {} of input \"{}\" has size {}, outside the range {}..{} the plan was built for", source.axis, f.bindings[source.binding].name,
                              inputs[source.binding].dims[source.axis], source.size.size_at(symbol.min), source.size.size_at(symbol.max)));
    throw problem.fix("compile with a wider range for this axis");
  }
}

void check_sizes(const LoadedFunction& loaded, std::span<const int64_t> symbols, std::span<const HostTensor> inputs, const Resolved& r) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int d = 0; d < inputs[i].rank; ++d) {
      const int64_t needed = r.binding_dims[i][static_cast<size_t>(d)];
      if (inputs[i].dims[d] != needed) refuse_size(loaded, symbols, i, static_cast<size_t>(d), inputs[i], needed);
    }
  }
}

void check_outputs(const LoadedFunction& loaded, std::span<const HostTensor> outputs) {
  if (outputs.size() == loaded.outputs) return;
  fail(Code::invalid_input, "the plan gives {}, but room for {} given", list_text("output", std::span(loaded.function->bindings).subspan(loaded.inputs, loaded.outputs)),
       given_text(outputs.size()));
}

void check_output(const plan::Binding& b, const HostTensor& given, std::span<const int64_t> dims, bool open) {
  const bool fits = given.dtype == b.dtype && given.rank == static_cast<int>(dims.size()) && is_dense_in({}, given) && (open || std::equal(dims.begin(), dims.end(), given.dims));
  if (!fits) {
    fail(Code::invalid_input, "the tensor given for output \"{}\" ({} {}) does not have the dtype, shape and row-major strides of the result", b.name,
         ir::torch_name_of(given.dtype), shape_text(given));
  }
  if (missing_data(given)) fail(Code::invalid_input, "output \"{}\" has no memory: its pointer is NULL", b.name);
}

}  // namespace ingot::runtime
