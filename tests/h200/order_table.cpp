// Launches kernels of the order table through the driver alone, so that nothing but them runs under a tool.
//
// order_table once|values MANIFEST
//
// MANIFEST: the input's file and the noise's cubin, then a line for each kernel: number, entry, cubin, file of the
// right words, blocks, threads. Writes `@@ process id` first, `@@ number` before each kernel, `## wrong launches` behind
// it with `values`, `!! error` where the driver reports one, which ends it, and `@@ done` at the end.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {
constexpr unsigned kWorkWords = 4096, kRounds = 150, kAtOnce = 20, kNoiseWords = 64u << 20;
// Of one block that fills an SM's shared memory; enough blocks to come by every SM.
constexpr unsigned kSharedBytes = 227 * 1024, kFillers = 1056;
using Words = std::vector<unsigned>;

void* symbol(const char* name) {
    static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* found = driver ? dlsym(driver, name) : nullptr;
    if (!found) { std::printf("!! no %s in the driver\n", name); std::exit(4); }
    return found;
}
#define DRIVER(name, exported) const auto name##_ = reinterpret_cast<decltype(&::name)>(symbol(exported))

void check(CUresult status) {
    if (status == CUDA_SUCCESS) return;
    DRIVER(cuGetErrorName, "cuGetErrorName");
    const char* name = "unknown error";
    cuGetErrorName_(status, &name);
    std::printf("!! %s\n", name);
    std::fflush(stdout);
    std::_Exit(3);  // the context is lost
}

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) { std::printf("!! cannot read %s\n", path.c_str()); std::exit(4); }
    return {std::istreambuf_iterator<char>(file), {}};
}

Words words_of(const std::string& path) {
    const std::string bytes = contents(path);
    const auto* first = reinterpret_cast<const unsigned*>(bytes.data());
    return {first, first + bytes.size() / sizeof(unsigned)};
}

CUdeviceptr room(size_t words) {
    DRIVER(cuMemAlloc, "cuMemAlloc_v2");
    CUdeviceptr address = 0;
    check(cuMemAlloc_(&address, words * sizeof(unsigned)));
    return address;
}

CUfunction load(const std::string& cubin, const std::string& entry) {
    DRIVER(cuModuleLoadData, "cuModuleLoadData");
    DRIVER(cuModuleGetFunction, "cuModuleGetFunction");
    CUmodule module;
    CUfunction function;
    check(cuModuleLoadData_(&module, contents(cubin).c_str()));
    check(cuModuleGetFunction_(&function, module, entry.c_str()));
    return function;
}

// 32 rows of 128 words, boxes of one row.
CUtensorMap tensor_map(CUdeviceptr words) {
    DRIVER(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled");
    const cuuint64_t shape[] = {128, 32}, strides[] = {512};
    const cuuint32_t box[] = {128, 1}, steps[] = {1, 1};
    CUtensorMap map;
    check(cuTensorMapEncodeTiled_(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, reinterpret_cast<void*>(words), shape, strides,
                                  box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

struct Kernel {
    CUfunction function;
    unsigned blocks, threads;
    Words expected;
};

// `at_once` launches in streams of their own with buffers of their own; how many of them left a wrong word. Where there
// are several, shared memory is filled before them: a kernel that reads too early would else find the right words of
// the launch before.
class Launcher {
  public:
    Launcher(const std::string& input, const std::string& noise, unsigned at_once)
        : streams_(at_once), work_(room(size_t(at_once) * kWorkWords)), out_(room(size_t(at_once) * kWorkWords)) {
        DRIVER(cuMemcpyHtoD, "cuMemcpyHtoD_v2");
        DRIVER(cuStreamCreate, "cuStreamCreate");
        const Words words = words_of(input);
        in_ = room(words.size());
        check(cuMemcpyHtoD_(in_, words.data(), words.size() * sizeof(unsigned)));
        map_ = tensor_map(in_);
        for (CUstream& stream : streams_) check(cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING));
        if (at_once == 1) return;
        check(cuStreamCreate_(&beside_, CU_STREAM_NON_BLOCKING));
        DRIVER(cuFuncSetAttribute, "cuFuncSetAttribute");
        noise_ = load(noise, "noise");
        fill_ = load(noise, "fill");
        check(cuFuncSetAttribute_(fill_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kSharedBytes));
        noise_words_ = room(kNoiseWords);
    }

    unsigned wrong(const Kernel& kernel, bool noisy) {
        DRIVER(cuMemsetD32, "cuMemsetD32_v2");
        DRIVER(cuCtxSynchronize, "cuCtxSynchronize");
        DRIVER(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
        const size_t size = kernel.expected.size();
        check(cuMemsetD32_(work_, 0, streams_.size() * kWorkWords));
        check(cuMemsetD32_(out_, ~0u, streams_.size() * size));
        if (fill_) launch(fill_, kFillers, 1024, nullptr, nullptr, kSharedBytes);
        check(cuCtxSynchronize_());
        if (noisy) {
            unsigned count = kNoiseWords;
            void* arguments[] = {&noise_words_, &count};
            launch(noise_, 264, 128, beside_, arguments);
        }
        for (size_t i = 0; i < streams_.size(); ++i) {
            CUdeviceptr out = out_ + i * size * sizeof(unsigned), work = work_ + i * kWorkWords * sizeof(unsigned);
            void* arguments[] = {&out, &in_, &work, &map_};
            launch(kernel.function, kernel.blocks, kernel.threads, streams_[i], arguments);
        }
        check(cuCtxSynchronize_());
        Words seen(streams_.size() * size);
        check(cuMemcpyDtoH_(seen.data(), out_, seen.size() * sizeof(unsigned)));
        unsigned count = 0;
        for (auto first = seen.begin(); first != seen.end(); first += size)
            count += Words(first, first + size) != kernel.expected;
        return count;
    }

  private:
    static void launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream, void** arguments,
                       unsigned shared_bytes = 0) {
        DRIVER(cuLaunchKernel, "cuLaunchKernel");
        check(cuLaunchKernel_(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, arguments, nullptr));
    }

    std::vector<CUstream> streams_;
    CUtensorMap map_;
    CUdeviceptr work_, out_, in_ = 0, noise_words_ = 0;
    CUstream beside_ = nullptr;
    CUfunction noise_ = nullptr, fill_ = nullptr;
};

void use_device() {
    DRIVER(cuInit, "cuInit");
    DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    DRIVER(cuCtxSetCurrent, "cuCtxSetCurrent");
    CUcontext context;
    check(cuInit_(0));
    check(cuDevicePrimaryCtxRetain_(&context, 0));
    check(cuCtxSetCurrent_(context));
}
}  // namespace

int main(int, char** argv) {
    const bool values = std::string(argv[1]) == "values";
    std::istringstream manifest(contents(argv[2]));
    std::string input, noise, number, entry, cubin, expected;
    unsigned blocks, threads;
    manifest >> input >> noise;
    std::printf("@@ process %d\n", int(getpid()));
    std::fflush(stdout);
    use_device();
    Launcher launcher(input, noise, values ? kAtOnce : 1);
    while (manifest >> number >> entry >> cubin >> expected >> blocks >> threads) {
        std::printf("@@ %s\n", number.c_str());
        std::fflush(stdout);
        const Kernel kernel{load(cubin, entry), blocks, threads, words_of(expected)};
        unsigned wrong = 0;
        for (unsigned round = 0; round < (values ? kRounds : 1); ++round) wrong += launcher.wrong(kernel, values && round % 2);
        if (values) std::printf("## %u\n", wrong);
    }
    std::printf("@@ done\n");
    return 0;
}
