#include "kernels/external/external.h"

#include "base/error.h"

namespace ingot::kernels {

namespace {

std::vector<std::string> texts(const ir::Attribute& a, size_t count, const char* what) {
  std::vector<std::string> out;
  if (const auto* list = std::get_if<ir::List>(&a.value)) {
    for (const ir::Attribute& part : *list) {
      if (const auto* text = std::get_if<std::string>(&part.value)) out.push_back(*text);
    }
    if (out.size() == list->size() && out.size() == count) return out;
  }
  fail(Code::format, "attribute \"{}\" of an external kernel is not {} texts", what, count);
}

External::Gpu gpu_of(const ir::Attributes& a) {
  std::vector<std::string> code = texts(a.at("cuda"), 3, "cuda");
  using Form = External::Gpu::Form;
  if (code[0] != "cuda" && code[0] != "ptx" && code[0] != "cubin") fail(Code::format, "an external kernel's code is \"{}\", none of cuda, ptx, cubin", code[0]);
  External::Gpu out{code[0] == "cuda"  ? Form::source
                    : code[0] == "ptx" ? Form::portable
                                       : Form::machine,
                    std::move(code[1]),
                    std::move(code[2]),
                    a.dims("grid"),
                    a.integers("block"),
                    a.dim("shared"),
                    a.dims("sizes"),
                    a.integer("number_bytes")};
  if (out.grid.size() != 3 || out.block.size() != 3) fail(Code::format, "an external kernel's grid and block have {} and {} axes, not 3", out.grid.size(), out.block.size());
  if (out.number_bytes != 4 && out.number_bytes != 8) fail(Code::format, "an external kernel's numbers have {} bytes, not 4 or 8", out.number_bytes);
  return out;
}

}  // namespace

External external_of(const ir::Node& node) {
  const ir::Attributes& a = node.attributes;
  External out{a.string("name"), a.integers("written"), {}, std::nullopt, std::nullopt};
  const auto* numbers = std::get_if<ir::List>(&a.at("numbers").value);
  if (numbers == nullptr) fail(Code::format, "the numbers of external kernel {} are not a list", out.name);
  for (const ir::Attribute& n : *numbers) out.numbers.push_back(ir::Attributes{{"number", n}}.scalar("number"));
  if (const ir::Attribute* cpu = a.find("cpu")) {
    std::vector<std::string> code = texts(*cpu, 3, "cpu");
    out.cpu = HostCode{std::move(code[0]), std::move(code[1]), std::move(code[2])};
  }
  if (a.find("cuda") != nullptr) out.gpu = gpu_of(a);
  return out;
}

}  // namespace ingot::kernels
