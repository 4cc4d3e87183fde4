#include <unistd.h>

#include <simdjson.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "command.h"

namespace ingot::cli {

namespace {

struct CompileArguments {
  std::string model, output, progress;
  std::vector<std::string> shapes, settings;
  std::string budget;
  bool dry_run = false, json = false;
};

// x:0=1..8..64,B
void set_shape(ingot_model* model, const std::string& text) {
  auto bad = [&] { return Failure{usage, "--shape takes INPUT:AXIS=MIN..OPT..MAX[,NAME], not \"" + text + "\""}; };
  size_t equal = text.find('='), colon = text.rfind(':', equal);
  if (equal == std::string::npos || colon == std::string::npos) throw bad();
  size_t a = text.find("..", equal), b = a == std::string::npos ? a : text.find("..", a + 2), comma = text.find(',', equal);
  if (b == std::string::npos) throw bad();
  try {
    int64_t axis = std::stoll(text.substr(colon + 1, equal - colon - 1)), min = std::stoll(text.substr(equal + 1)), opt = std::stoll(text.substr(a + 2)),
            max = std::stoll(text.substr(b + 2));
    check(ingot_model_set_dim(model, text.substr(0, colon).c_str(), axis, min, opt, max, comma == std::string::npos ? "" : text.substr(comma + 1).c_str()));
  } catch (const std::logic_error&) {
    throw bad();
  }
}

std::string explained(const ingot_model* model, const ingot_options* options, bool json) {
  char* text = nullptr;
  check(ingot_explain(model, options, &text));
  std::string document = text;
  ingot_string_release(text);
  if (json) return document + "\n";
  simdjson::dom::parser parser;
  return std::string(std::string_view(parser.parse(document)["text"]));
}

// Removes the setting `dryrun`. Returns "" if there was none, else "true" or a path.
std::string take_dryrun(std::vector<std::string>& settings) {
  std::string asked;
  std::erase_if(settings, [&](const std::string& s) {
    if (!s.starts_with("dryrun=")) return false;
    asked = s.substr(7);
    return true;
  });
  return asked == "false" ? "" : asked;
}

volatile std::sig_atomic_t interrupted = 0;

// The first Ctrl-C cancels the build at its next stage and leaves nothing behind; a second one ends the process.
void interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

// A progress line on the terminal for builds of more than two seconds, with an estimate of the remaining time. It is erased at the end.
class Bar {
 public:
  explicit Bar(std::string kind) : kind_(std::move(kind)) {}
  ~Bar() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void show(const char* stage, double fraction) {
    if (kind_ == "json") {
      std::fprintf(stderr, "{\"stage\": \"%s\", \"fraction\": %.3f}\n", stage, fraction);
      std::fflush(stderr);
      return;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    if (seconds < 2 || ::isatty(2) == 0) return;
    shown_ = true;
    const int full = static_cast<int>(fraction * 24);
    std::fprintf(stderr, "\r\033[K[%.*s%*s] %3.0f%% %s", full, "########################", 24 - full, "", fraction * 100, stage);
    if (fraction > 0.05) std::fprintf(stderr, ", about %.0f s left", seconds * (1 - fraction) / fraction);
  }

 private:
  std::string kind_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

int report(const char* stage, double fraction, void* bar) {
  static_cast<Bar*>(bar)->show(stage, fraction);
  return interrupted;
}

void compile(const CompileArguments& a) {
  std::signal(SIGINT, interrupt);
  ingot_model* raw = nullptr;
  check(ingot_model_open(a.model.c_str(), &raw));
  Model model(raw);
  for (const std::string& s : a.shapes) set_shape(model.get(), s);
  std::vector<std::string> settings = a.settings;
  if (!a.budget.empty()) settings.push_back("build_seconds=" + a.budget);
  make_options(settings);  // refuses unknown options
  std::string dryrun = take_dryrun(settings);
  if (a.dry_run || !dryrun.empty()) {
    Options options = make_options(settings);
    bool to_file = !dryrun.empty() && dryrun != "true";
    std::string text = explained(model.get(), options.get(), a.json || (to_file && dryrun.ends_with(".json")));
    to_file ? write_text(dryrun, text) : static_cast<void>(std::printf("%s", text.c_str()));
    return;
  }
  if (a.output.empty()) throw Failure{usage, "compile needs -o PLAN (or --dry-run)"};
  // A plan runs without torch, so every operator must be compiled.
  settings.insert(settings.begin(), "fallback=error");
  Options options = make_options(settings);
  ingot_plan* made = nullptr;
  {
    Bar bar(a.progress);
    const ingot_status status = ingot_compile(model.get(), options.get(), report, &bar, &made);
    if (status == INGOT_CANCELLED && interrupted) throw Failure{130, "interrupted; nothing is written"};
    check(status);
  }
  Plan plan(made);
  check(ingot_plan_save(plan.get(), a.output.c_str()));
}

}  // namespace

void add_compile(CLI::App& app) {
  auto a = std::make_shared<CompileArguments>();
  CLI::App* verb = app.add_subcommand("compile", "Compile a torch.export archive (.pt2) into a plan.");
  verb->add_option("model", a->model, "the .pt2 file")->required();
  verb->add_option("-o,--output", a->output, "where to write the plan");
  verb->add_option("--shape", a->shapes, "range of a dynamic axis: INPUT:AXIS=MIN..OPT..MAX[,NAME]");
  verb->add_option("--set", a->settings, "an option: NAME=VALUE");
  verb->add_option("--budget", a->budget, "seconds for timing on the GPU at hand: --set build_seconds=SECONDS");
  verb->add_flag("--dry-run", a->dry_run, "build nothing: tell which operators an engine runs, which it leaves to torch, and why");
  verb->add_flag("--json", a->json, "with --dry-run: as JSON");
  verb->add_option("--progress", a->progress, "json: one line a stage on standard error")->check(CLI::IsMember({"json"}));
  verb->callback([a] { compile(*a); });
}

}  // namespace ingot::cli
