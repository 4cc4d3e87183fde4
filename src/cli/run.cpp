#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "command.h"

namespace ingot::cli {

namespace {

struct RunArguments {
  Source plan;
  StateSource state;
  std::string output, trace, device = "auto";
  std::vector<std::string> inputs, shapes, settings;
  int threads = 0, repeat = 1;
};

void run(const RunArguments& a) {
  Runner runner(a.plan, a.threads, a.device, 0, a.settings);
  runner.use(a.state);
  runner.fill(a.inputs, a.shapes);
  for (int i = 1; i < a.repeat; ++i) runner.run();
  a.trace.empty() ? runner.run() : runner.trace(a.trace);
  if (!a.output.empty()) {
    std::error_code ignored;  // writing the first file reports it
    std::filesystem::create_directories(a.output, ignored);
    auto write = [&](std::string name, const HostArray& array) {
      std::replace(name.begin(), name.end(), '/', '_');  // a plan must not choose the folder
      write_npy(a.output + "/" + name + ".npy", array);
    };
    for (size_t o = 0; o < runner.outputs.size(); ++o) write(runner.function.outputs[o].name, runner.outputs[o]);
    // Inputs that the model has changed, by name.
    for (size_t i = 0; i < runner.inputs.size(); ++i) {
      if (runner.function.inputs[i].written) write(runner.function.inputs[i].name, runner.written_input(i));
    }
    for (size_t i = 0; i < runner.function.states.size(); ++i) write(runner.function.states[i].name, runner.state_array(i));
  }
  if (!a.state.saved.empty()) check(ingot_state_save(runner.state.get(), a.state.saved.c_str()));
  for (size_t o = 0; o < runner.outputs.size(); ++o) {
    std::string shape;
    for (int64_t d : runner.outputs[o].dims) shape += (shape.empty() ? "" : ", ") + std::to_string(d);
    std::printf("%s %s [%s]\n", runner.function.outputs[o].name.c_str(), dtype_name(runner.outputs[o].dtype), shape.c_str());
  }
}

}  // namespace

void add_run(CLI::App& app) {
  auto a = std::make_shared<RunArguments>();
  CLI::App* verb = app.add_subcommand("run", "Run a plan on .npy files.");
  a->plan.add_to(*verb);
  verb->add_option("-i,--input", a->inputs, "NAME=file.npy or NAME=random:SEED; inputs not named are random");
  verb->add_option("--shape", a->shapes, "shape of a random input: NAME=2,16");
  verb->add_option("-o,--output", a->output, "folder for the outputs and for what the model changed (inputs, buffers), as .npy; made if it is not there");
  a->state.add_to(*verb);
  verb->add_option("--save-state", a->state.saved, "where to write the state after the last run (safetensors)");
  verb->add_option("--trace", a->trace, "where to write the last run as a trace (JSON for Perfetto): each step, its time and the model's line");
  verb->add_option("--repeat", a->repeat, "run this often")->check(positive);
  verb->add_option("--device", a->device, "cpu, cuda, cuda:1, reference; auto = the CPU when the plan has a program for it, else the first GPU");
  verb->add_option("--set", a->settings, "NAME=VALUE: any option for running, such as memory_bytes=4000000000");
  verb->add_option("--threads", a->threads, "0 = all that may be used")->check(not_negative);
  verb->callback([a] { run(*a); });
}

}  // namespace ingot::cli
