#include <cstdio>
#include <ctime>

#include "base/error.h"
#include "base/key_difference.h"
#include "base/own_file.h"
#include "base/store.h"
#include "command.h"

namespace ingot::cli {

namespace {

Store store_in(const std::string& folder) {
  Store store(folder.empty() ? cache_folder("built") : folder, 0);
  if (!store.problem().empty()) throw Failure{10 + INGOT_IO, store.problem()};
  return store;
}

// The lines of a key that start with `word`.
std::vector<std::string> lines_with(const std::string& key, const std::string& word) {
  std::vector<std::string> found;
  for (size_t at = 0; at < key.size();) {
    const size_t end = std::min(key.find('\n', at), key.size());
    if (key.compare(at, word.size(), word) == 0) found.push_back(key.substr(at + word.size(), end - at - word.size()));
    at = end + 1;
  }
  return found;
}

// The options of a key that are not at their defaults, by the library.
std::string options_of(const std::string& key) {
  char* text = nullptr;
  check(ingot_options_describe(&text));
  simdjson::dom::parser parser;
  std::map<std::string, std::string> defaults;
  for (auto option : simdjson::dom::array(simdjson::dom::element(parser.parse(take(text))))) defaults[text_of(option["name"])] = text_of(option["default"]);
  std::string shown;
  for (const std::string& line : lines_with(key, "option ")) {
    const size_t colon = line.find(": ");
    const std::string name = line.substr(0, colon), value = colon == std::string::npos ? "" : line.substr(colon + 2);
    if (auto found = defaults.find(name); found != defaults.end() && found->second != value) shown += " " + name + "=" + value;
  }
  return shown;
}

std::string plans(size_t count) { return std::to_string(count) + (count == 1 ? " plan" : " plans"); }

void list(const std::string& folder) {
  const Store store = store_in(folder);
  const std::vector<Store::Entry> all = store.entries();
  uint64_t total = 0;
  for (const Store::Entry& e : all) {
    const std::optional<std::string> key = store.key_of(e.name);
    char used[32];
    const auto when = static_cast<time_t>(e.used / 1'000'000'000);
    std::strftime(used, sizeof used, "%Y-%m-%d %H:%M", std::localtime(&when));
    std::printf("%s  %9.1f kB  %s %s\n", e.name.substr(0, 12).c_str(), double(e.bytes) * 1e-3, used, key ? options_of(*key).c_str() : " damaged");
    total += e.bytes;
  }
  if (all.empty()) {
    std::puts("no plans");
  } else {
    std::printf("%s, %.1f MB\n", plans(all.size()).c_str(), double(total) * 1e-6);
  }
}

// Prints how an entry (by default the newest) differs from the most similar other one.
void why(const std::string& folder, const std::string& name, bool lines) {
  const Store store = store_in(folder);
  for (const Store::Entry& e : store.entries()) {
    if (!e.name.starts_with(name)) continue;
    const std::optional<std::string> key = store.key_of(e.name);
    if (!key) continue;
    const std::optional<std::string> near = store.nearest(*key);
    if (!near) throw Failure{usage, "there is no other plan to compare " + e.name.substr(0, 12) + " with"};
    const std::optional<std::string> other = store.key_of(*near);
    std::printf("%s (here) is nearest to %s (there), and differs in:\n", e.name.substr(0, 12).c_str(), near->substr(0, 12).c_str());
    if (other) {
      for (const std::string& line : lines ? differing_lines(*other, *key) : explain_difference(*other, *key)) std::puts(line.c_str());
    }
    return;
  }
  throw Failure{usage, name.empty() ? "there are no plans" : "no plan's name begins with " + name + "; ingot cache list shows them"};
}

void verify(const std::string& folder) {
  const Store store = store_in(folder);
  size_t whole = 0, damaged = 0;
  for (const Store::Entry& e : store.entries()) {
    if (const std::optional<std::string> wrong = store.damage(e.name)) {
      ++damaged;
      std::printf("%s is damaged: %s\n", e.name.c_str(), wrong->c_str());
    } else {
      ++whole;
    }
  }
  if (damaged > 0)
    throw Failure{10 + INGOT_FORMAT, plans(damaged) + (damaged == 1 ? " is" : " are") + " damaged and will be built anew; `ingot cache prune` removes what is damaged"};
  std::printf("%s %s whole\n", plans(whole).c_str(), whole == 1 ? "is" : "are");
}

void prune(const std::string& folder, double bytes) try {
  const Store::Pruned pruned = store_in(folder).prune(static_cast<uint64_t>(std::clamp(bytes, 0.0, 0x1p63)));
  std::printf("%s removed, %zu damaged ones and %zu files that killed processes left\n", plans(pruned.old).c_str(), pruned.damaged, pruned.left);
} catch (const Error& e) {
  throw Failure{10 + static_cast<int>(e.code), e.message};
}

}  // namespace

void add_cache(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("cache", "Look at the plans that the option cache keeps.");
  verb->require_subcommand(1);
  auto folder = std::make_shared<std::string>(), name = std::make_shared<std::string>();
  auto bytes = std::make_shared<double>(5368709120);
  auto lines = std::make_shared<bool>(false);
  auto add = [&](const char* what, const char* text) {
    CLI::App* part = verb->add_subcommand(what, text);
    part->add_option("--dir", *folder, "their folder (option cache_dir); the user's own if none is given");
    return part;
  };
  add("list", "Each plan's name, bytes, last use and options.")->callback([=] { list(*folder); });
  CLI::App* compared = add("why", "What a plan was made from that the nearest other one was not.");
  compared->add_option("name", *name, "how its name begins; the one used last if none is given");
  compared->add_flag("--lines", *lines, "the lines of what they were made from, not their meaning");
  compared->callback([=] { why(*folder, *name, *lines); });
  CLI::App* pruned = add("prune", "Remove what is damaged, what killed processes left, and what was used longest ago.");
  pruned->add_option("--bytes", *bytes, "how many bytes may stay");
  pruned->callback([=] { prune(*folder, *bytes); });
  add("verify", "Read every plan and compare it with its checksum.")->callback([=] { verify(*folder); });
}

}  // namespace ingot::cli
