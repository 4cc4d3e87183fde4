// The cache of plans: option `cache`.
#include "pipeline.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <unordered_map>

#include "base/build_id.h"
#include "base/error.h"
#include "base/key_difference.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/store.h"

namespace ingot {

namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// Identifies the build of the library by its content, since files of two builds may have equal size and time. Used if the linker left no build ID.
std::string library() {
  static const std::string text = [] {
    const void* here = reinterpret_cast<const void*>(&cache_key);
    if (const std::string id = build_id_of(here); !id.empty()) return fmt::format("{}, build {}", compile::producer, id.substr(0, 16));
    Dl_info info;
    struct stat status;
    if (::dladdr(here, &info) == 0 || info.dli_fname == nullptr || ::stat(info.dli_fname, &status) != 0) return std::string(compile::producer);
    return fmt::format("{}, {} bytes of {}.{:09}", compile::producer, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  }();
  return text;
}

void report(const std::string& text) {
  if (is_set("INGOT_LOG")) say(LogLevel::info, "cache: " + text);
}

// The plan of an entry, which has no values of weights, with this model's weights; nullopt if they are not those that it reads.
std::optional<plan::Plan> with_weights(std::vector<std::byte> bytes, const capture::Model& model, const compile::Options& options) {
  auto keep = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  plan::Plan made = *plan::read(*keep, keep, plan::Trust::code);  // no other user can have written it
  std::unordered_map<std::string_view, const ir::Weight*> given;
  for (const ir::Weight& w : model.graph.weights) given.emplace(w.name, &w);
  for (plan::Weight& w : made.weights) {
    auto found = given.find(w.name);
    if (found == given.end() || found->second->bytes != w.bytes) return std::nullopt;
    w.data = found->second->data;
    w.keep = found->second->keep;
    w.source = plan::Weight::Source::embedded;
  }
  made.values = options.text("weights") == "strip" ? plan::Values::left_out : plan::Values::embedded;
  made.code_from = plan::CodeFrom::here;
  made.hash = {};
  made.weights_hash.reset();
  return made;
}

void report_miss(const Store& store, const std::string& key) {
  if (!is_set("INGOT_LOG")) return;
  const std::optional<std::string> near = store.nearest(key);
  const std::optional<std::string> other = near ? store.key_of(*near) : std::nullopt;
  if (!other) return report("no such plan");
  const std::vector<std::string> reasons = explain_difference(*other, key);
  constexpr size_t max_shown = 8;
  std::string text = fmt::format("no such plan; the nearest one, {}, differs in", near->substr(0, 12));
  for (size_t i = 0; i < std::min(reasons.size(), max_shown); ++i) text += "\n  " + reasons[i].substr(0, 160);
  if (reasons.size() > max_shown) text += fmt::format("\n  and {} more", reasons.size() - max_shown);
  report(text);
}

}  // namespace

std::string cache_key(const capture::Model& model, const compile::Options& options) {
  std::string key = fmt::format("library: {}\n", library());
  for (const compile::Option& o : compile::option_table()) {
    if (changes_plan(o.kind)) key += fmt::format("option {}: {}\n", o.name, options.text(o.name));
  }
  key += fmt::format("signature: {}\n", model.signature);
  return key + "graph:\n" + ir::print(model.graph);
}

plan::Plan build_or_take(const capture::Model& model, const compile::Options& options, const std::function<bool(std::string_view, double)>& progress) {
  const std::string& use = options.text("cache");
  const char* log = std::getenv("INGOT_LOG");
  const bool looked_into = (log != nullptr && std::string_view(log) == "debug") || is_set("INGOT_DUMP") || is_set("INGOT_DISABLE") || is_set("INGOT_OFFER") ||
                           options.number("build_seconds") > 0 || !options.text("timing_cache").empty();
  if (use == "off" || looked_into || options.text("dryrun") != "false") return build(model, options, progress);
  const std::string& folder = options.text("cache_dir");
  const Store store(folder.empty() ? cache_folder("built") : folder, static_cast<uint64_t>(options.number("cache_bytes")));
  if (!store.problem().empty()) {
    say_once("plans are not cached: " + store.problem());
    return build(model, options, progress);
  }
  const std::string key = cache_key(model, options);
  if (use != "write") {
    if (auto bytes = store.find(key)) {
      try {
        if (auto taken = with_weights(std::move(*bytes), model, options)) {
          report("the plan was built before");
          return std::move(*taken);
        }
      } catch (const Error& e) {  // this library cannot read the entry
        if (e.code != Code::format && e.code != Code::version) throw;
        report("an entry is not used: " + e.message);
      }
    } else {
      report_miss(store, key);
    }
  }
  plan::Plan made = build(model, options, progress);
  try {
    if (use != "read") store.put(key, plan::write(made, plan::Values::unread));  // the values may lie on a GPU
  } catch (const Error& e) {  // the plan is valid even if the file is not
    if (e.code != Code::io) throw;
    say_once("plans are not cached: " + e.message);
  }
  return made;
}

}  // namespace ingot
