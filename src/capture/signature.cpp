// How a call's arguments and results map to the graph's tensors, for Python: what python/ingot/capture/signature.py writes of programs in process.
#include "capture/signature.h"

#include "base/text.h"

namespace ingot::capture {

namespace {

// The constant in an argument such as {"as_int": 3}; nothing for a tensor, a size, and a float that JSON has no number for.
std::optional<std::string> constant(Json argument) {
  std::string_view kind;
  Json value = argument.only(kind);
  if (kind == "as_none") return "null";
  if (kind == "as_float" && value.text().starts_with('"')) return std::nullopt;
  if (kind == "as_int" || kind == "as_float" || kind == "as_bool" || kind == "as_string") return value.text();
  return std::nullopt;
}

class Entries {
 public:
  void add(Json argument) {
    if (auto value = constant(argument)) {
      entry("constant", *value);
      return;
    }
    std::string_view kind;
    Json value = argument.only(kind);
    if (kind == "as_tensor") entry("tensor", std::to_string(tensors_++));
    if (kind == "as_sym_int") entry("number", value.text());
  }
  void entry(std::string_view kind, const std::string& value) { text_ += fmt::format("{}{{\"{}\": {}}}", text_.size() > 1 ? ", " : "", kind, value); }
  std::string text() const { return text_ + "]"; }

 private:
  std::string text_ = "[";
  size_t tensors_ = 0;
};

}  // namespace

std::string signature_text(Json module) {
  auto calls = module.find("module_call_graph");
  if (!calls) return "null";
  std::optional<Json> whole;
  for (auto entry : calls->array()) {
    whole = calls->child(entry).find("signature");
    break;
  }
  if (!whole) return "null";
  Json specs = module.at("signature");
  Entries inputs, outputs;
  Json input_specs = specs.at("input_specs"), output_specs = specs.at("output_specs");
  for (auto s : input_specs.array()) {
    std::string_view kind;
    Json spec = input_specs.child(s).only(kind);
    if (kind == "user_input") inputs.add(spec.at("arg"));
    if (kind == "constant_input") inputs.add(spec.at("value"));
  }
  for (auto s : output_specs.array()) {
    std::string_view kind;
    Json spec = output_specs.child(s).only(kind);
    if (kind == "user_output") outputs.add(spec.at("arg"));
  }
  std::string parameters;
  if (auto names = whole->find("forward_arg_names")) {
    for (auto name : names->array()) {
      parameters += parameters.empty() ? "{\"name\": " : ", {\"name\": ";
      append_json_string(parameters, names->child(name).string());
      parameters += ", \"kind\": \"either\"}";
    }
  }
  return fmt::format(R"({{"in_spec": {}, "out_spec": {}, "inputs": {}, "outputs": {}, "parameters": [{}]}})", whole->at("in_spec").text(), whole->at("out_spec").text(),
                     inputs.text(), outputs.text(), parameters);
}

}  // namespace ingot::capture
