// The compiler's part of ingot.h; only in libingot.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "api/guard.h"
#include "api/handles.h"
#include "api/plan_for.h"
#include "base/text.h"
#include "capture/adapter.h"
#include "capture/capture.h"
#include "ir/draw.h"
#include "ir/reference.h"
#include "ir/symbols.h"
#include "lower/lower.h"
#include "ops/operator.h"
#include "pipeline.h"
#include "plan/signature.h"
#include "runtime/strided.h"

struct ingot_model {
  ingot::capture::Model model;
};

using namespace ingot;
using namespace ingot::api;

namespace {

void describe_type(std::string& s, const ir::Graph& g, const std::string& name, const ir::Type& t) {
  s += "{\"name\": ";
  append_json_string(s, name);
  s += ", \"dtype\": ";
  append_json_string(s, ir::torch_name_of(t.dtype));
  s += ", \"dims\": [";
  for (size_t d = 0; d < t.dims.size(); ++d) {
    if (d) s += ", ";
    if (t.dims[d].is_constant()) {
      s += std::to_string(t.dims[d].value());
    } else {
      append_json_string(s, t.dims[d].text(g.symbols));
    }
  }
  s += "], \"ranges\": [";
  for (size_t d = 0; d < t.dims.size(); ++d) {
    if (d) s += ", ";
    const std::optional<LinearSize> size = ir::linear_size(t.dims[d]);
    if (!size) {
      s += "null";
      continue;
    }
    const ir::Symbol& symbol = g.symbols[size->symbol];
    s += fmt::format("{{\"min\": {}, \"max\": {}, \"factor\": {}, \"offset\": {}}}", size->size_at(symbol.min),
                     symbol.max == INT64_MAX ? "null" : std::to_string(size->size_at(symbol.max)), size->factor, size->offset);
  }
  s += "]}";
}

}  // namespace

namespace ingot::api {

std::vector<Target> targets_of(const plan::Plan& plan) {
  std::vector<Target> out;
  for (const plan::ForTarget& t : plan.targets) out.push_back(t.target);
  return out;
}

std::shared_ptr<const plan::Plan> current(std::shared_ptr<const plan::Plan> plan) {
  return plan->outdated ? std::make_shared<plan::Plan>(rebuild(*plan, targets_of(*plan))) : plan;
}

std::shared_ptr<const plan::Plan> plan_for(std::shared_ptr<const plan::Plan> plan, std::string_view device) {
  const std::optional<Target> target = runtime::missing_target(*plan, device);
  return target ? std::make_shared<plan::Plan>(rebuild(*plan, {&*target, 1})) : plan;
}

}  // namespace ingot::api

extern "C" {

ingot_status ingot_graph_draw(const char* text, const char* format, uint8_t** bytes, size_t* count) {
  return guard([&] {
    required(bytes, "bytes");
    required(count, "count");
    const std::string_view kind = &required(format, "format");
    const auto draw = kind == "svg" ? ir::draw_svg : kind == "dot" ? ir::draw_dot : kind == "onnx" ? ir::draw_onnx : nullptr;
    if (draw == nullptr) throw Error(Code::invalid_input, fmt::format("a graph cannot be drawn as \"{}\"", kind)).fix("\"svg\", \"dot\" or \"onnx\"");
    const std::string drawn = draw(ir::parse(&required(text, "text")));
    auto out = std::make_unique<uint8_t[]>(drawn.size());
    std::memcpy(out.get(), drawn.data(), drawn.size());
    *count = drawn.size();
    *bytes = out.release();
  });
}

ingot_status ingot_plan_offers(const ingot_plan* plan, const char* target, char** text) {
  return guard([&] {
    required(text, "text");
    const plan::Plan& given = *required(plan, "plan").plan;
    compile::Record record;
    record.device_code = false;
    compile::Options wanted;
    if (target != nullptr) wanted.set("target", target);
    rebuild(given, target != nullptr ? wanted.targets() : targets_of(given), &record);
    for (const plan::ForTarget& t : given.targets) {
      if (!t.timings.empty()) record.decisions += fmt::format("timed for {}\n", t.target.text());
      for (const Timing& x : t.timings) record.decisions += fmt::format("    {} for {} ({})\n", x.choice, x.problem, x.machine);
    }
    *text = give_text(record.decisions);
  });
}

ingot_status ingot_plan_verify_steps(const ingot_plan* plan, uint32_t function, const ingot_options* options, const ingot_tensor* inputs, size_t input_count, double bound,
                                     int stop, char** json) {
  return guard([&] {
    required(json, "json");
    const plan::Function& f = function_of(required(plan, "plan"), function);
    compile::Options defaults;
    const compile::Options& chosen = options != nullptr ? options->values : defaults;
    if (!(bound >= 0)) fail(Code::invalid_input, "the bound is {}; a number of roundings is needed, 0 for the usual ones", bound);
    verification::Settings settings;
    settings.device = chosen.text("device");
    settings.threads = static_cast<int>(chosen.integer("threads"));
    if (bound > 0) settings.bound = bound;
    settings.stop = stop != 0;
    std::vector<runtime::HostTensor> in;
    read_tensors(inputs, input_count, in);
    const auto wanted = static_cast<size_t>(std::count_if(f.bindings.begin(), f.bindings.end(), [](const plan::Binding& b) { return b.kind == plan::Binding::Kind::input; }));
    if (in.size() != wanted) fail(Code::invalid_input, "function \"{}\" takes {} inputs, but {} are given", f.name, wanted, in.size());
    *json = give_text(verify_steps(plan_for(plan->plan, settings.device), function, in, settings));
  });
}

ingot_status ingot_plan_sign(const char* path, const char* key, const char* out) {
  return guard([&] { plan::sign_file(&required(path, "path"), &required(key, "key"), &required(out, "out")); });
}

ingot_status ingot_keys_make(const char* path, char** public_key) {
  return guard([&] {
    required(public_key, "public_key");
    *public_key = give_text(plan::make_keys(&required(path, "path")));
  });
}

ingot_status ingot_model_open(const char* path, ingot_model** out) {
  return guard([&] { required(out, "out") = new ingot_model{capture::import_archive(&required(path, "path"))}; });
}

ingot_status ingot_model_from_memory(const char* json, size_t bytes, const ingot_weight_source* weights, size_t count, ingot_model** out) {
  return guard([&] {
    required(out, "out");
    std::vector<capture::HostWeight> table;
    if (count > 0) required(weights, "weights");
    for (size_t i = 0; i < count; ++i) table.push_back({&required(weights[i].name, "name"), static_cast<const std::byte*>(weights[i].data), weights[i].bytes});
    *out = new ingot_model{capture::import_json({&required(json, "json"), bytes}, table)};
  });
}

ingot_status ingot_model_set_dim(ingot_model* model, const char* input, int64_t axis, int64_t min, int64_t opt, int64_t max, const char* name) {
  return guard([&] { capture::set_dim(required(model, "model").model, &required(input, "input"), axis, min, opt, max, &required(name, "name")); });
}

ingot_status ingot_model_set_signature(ingot_model* model, const char* text) {
  return guard([&] {
    std::string signature = &required(text, "text");
    if (auto bad = find_bad_utf8(signature)) fail(Code::invalid_input, "the signature is not UTF-8 text at its byte {}, and files of plans hold UTF-8", *bad);
    required(model, "model").model.signature = std::move(signature);
  });
}

ingot_status ingot_model_describe(const ingot_model* model, char** json) {
  return guard([&] {
    const ir::Graph& g = required(model, "model").model.graph;
    std::string s = "{\"inputs\": [";
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      if (i) s += ", ";
      describe_type(s, g, g.inputs[i].name, g.type(g.inputs[i].value));
    }
    s += "], \"outputs\": [";
    bool more = false;
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      if (g.outputs[i].to != ir::Output::To::caller) continue;
      if (more) s += ", ";
      more = true;
      describe_type(s, g, g.outputs[i].name, g.type(g.outputs[i].value));
    }
    s += fmt::format("], \"weights\": {}, \"missing\": [", g.weights.size());
    bool first = true;
    for (const lower::Missing& m : lower::missing_operators(g)) {
      if (!first) s += ", ";
      first = false;
      append_json_string(s, m.target);
    }
    s += "], \"signature\": ";
    append_json_string(s, model->model.signature);
    required(json, "json") = give_text(s + "}");
  });
}

void ingot_model_release(ingot_model* model) { delete model; }

ingot_status ingot_compile(const ingot_model* model, const ingot_options* options, ingot_progress progress, void* user, ingot_plan** out) {
  return guard([&] {
    required(out, "out");
    compile::Options defaults;
    std::function<bool(std::string_view, double)> report;
    if (progress != nullptr) {
      report = [&](std::string_view stage, double fraction) { return progress(std::string(stage).c_str(), fraction, user) == 0; };
    }
    auto plan = std::make_shared<plan::Plan>(build_or_take(required(model, "model").model, with_measured_machine(options != nullptr ? options->values : defaults), report));
    *out = new ingot_plan{std::move(plan)};
  });
}

ingot_status ingot_plan_refit(const ingot_plan* plan, const char* const* weights, size_t count, const ingot_adapter* adapters, size_t adapter_count, int allow_missing,
                              ingot_plan** out) {
  return guard([&] {
    required(out, "out");
    std::vector<AdapterFile> added;
    for (const ingot_adapter& a : std::span(adapter_count > 0 ? &required(adapters, "adapters") : nullptr, adapter_count)) {
      if (!std::isfinite(a.scale)) fail(Code::invalid_input, "the scale of adapter {} is not a finite number", &required(a.path, "path"));
      added.push_back({&required(a.path, "path"), a.scale});
    }
    *out = new ingot_plan{std::make_shared<plan::Plan>(refit(*required(plan, "plan").plan, texts(weights, count, "weights"), added, allow_missing != 0))};
  });
}

ingot_status ingot_adapter_describe(const char* const* tensors, size_t count, const char* config, const char* const* weights, size_t weight_count, char** json) {
  return guard([&] {
    required(json, "json");
    const std::vector<std::string> names = texts(tensors, count, "tensors");
    std::string s = "[";
    for (const capture::AdapterPart& part : capture::adapter_parts(names, config != nullptr ? config : "", texts(weights, weight_count, "weights"))) {
      s += s.size() > 1 ? ", {\"weight\": " : "{\"weight\": ";
      append_json_string(s, part.weight);
      s += fmt::format(", \"down\": {}, \"up\": {}, \"alpha_tensor\": {}, \"alpha\": {}, \"by_root\": {}, \"transposed\": {}}}", part.down, part.up,
                       part.alpha_tensor ? std::to_string(*part.alpha_tensor) : "null", part.alpha ? fmt::format("{}", *part.alpha) : "null", part.by_root, part.transposed);
    }
    *json = give_text(s + "]");
  });
}

ingot_status ingot_explain(const ingot_model* model, const ingot_options* options, char** json) {
  return guard([&] {
    compile::Options defaults;
    required(json, "json") = give_text(explain(required(model, "model").model, with_measured_machine(options != nullptr ? options->values : defaults)));
  });
}

ingot_status ingot_ops_describe(char** json) {
  return guard([&] {
    std::string s = "[";
    for (const ops::Operator& op : ops::all()) {
      if (s.size() > 1) s += ", ";
      s += "{\"name\": ";
      append_json_string(s, op.schema.target());
      s += ", \"family\": ";
      append_json_string(s, op.family);
      s += ", \"parameters\": [";
      for (size_t i = 0; i < op.schema.parameters.size(); ++i) {
        const ops::Parameter& p = op.schema.parameters[i];
        s += i ? ", {\"name\": " : "{\"name\": ";
        append_json_string(s, p.name);
        s += ", \"type\": ";
        append_json_string(s, p.type);
        if (p.default_text) {
          s += ", \"default\": ";
          append_json_string(s, *p.default_text);
        }
        s += "}";
      }
      s += "]}";
    }
    required(json, "json") = give_text(s + "]");
  });
}

ingot_status ingot_ops_describe_absent(char** json) {
  return guard([&] {
    std::string s = "[";
    for (const ops::Absent& op : ops::absent()) {
      s += s.size() > 1 ? ", {\"name\": " : "{\"name\": ";
      append_json_string(s, op.target);
      s += ", \"group\": ";
      append_json_string(s, op.group);
      s += ", \"reason\": ";
      append_json_string(s, op.reason);
      s += "}";
    }
    required(json, "json") = give_text(s + "]");
  });
}

ingot_status ingot_plan_reference(const ingot_plan* plan, uint32_t function, const ingot_tensor* inputs, size_t input_count, const ingot_tensor* outputs, size_t output_count) {
  return guard([&] {
    ir::Graph g = ir::parse(function_of(required(plan, "plan"), function).graph);
    g.fill_weights([&](ir::Weight& w, const ir::Type&) {
      for (const plan::Weight& p : plan->plan->weights) {
        if (p.name != w.name) continue;
        w.data = p.data;
        w.bytes = p.bytes;
      }
      if (w.data == nullptr && w.bytes > 0) fail(Code::invalid_input, "weight \"{}\" has no data: the plan was saved without it", w.name);
    });
    std::vector<runtime::HostTensor> in, out;
    read_tensors(inputs, input_count, in);
    read_tensors(outputs, output_count, out);
    std::vector<std::vector<int64_t>> dims;
    for (const runtime::HostTensor& t : in) dims.emplace_back(t.dims, t.dims + t.rank);
    ir::bind_symbols(g, dims);  // before the inputs' bytes are read
    std::vector<ir::Array> arrays;
    for (size_t i = 0; i < in.size(); ++i) {
      if (runtime::missing_data(in[i])) fail(Code::invalid_input, "input \"{}\" has no data: its pointer is NULL", g.inputs[i].name);
      arrays.push_back(ir::Array::empty(in[i].dtype, dims[i]));
      if (!arrays[i].bytes.empty()) runtime::copy_strided(in[i], {}, arrays[i].bytes.data(), true);
    }
    std::vector<ir::Array> results = ir::interpret(g, arrays);  // results for states are left out
    for (size_t i = results.size(); i-- > 0;) {
      if (g.outputs[i].to != ir::Output::To::caller) results.erase(results.begin() + static_cast<int64_t>(i));
    }
    if (results.size() != out.size()) fail(Code::invalid_input, "the plan has {} outputs, but {} are given", results.size(), out.size());
    for (size_t i = 0; i < results.size(); ++i) {
      bool fits = out[i].dtype == results[i].dtype && runtime::is_dense_in({}, out[i]) && std::vector<int64_t>(out[i].dims, out[i].dims + out[i].rank) == results[i].dims;
      if (!fits) fail(Code::invalid_input, "the tensor given for output {} does not have the dtype, shape and row-major strides of the result", i);
      if (runtime::missing_data(out[i])) fail(Code::invalid_input, "output {} has no memory: its pointer is NULL", i);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].bytes.empty()) std::memcpy(out[i].data, results[i].bytes.data(), results[i].bytes.size());
    }
  });
}

}  // extern "C"
