// SPDX-License-Identifier: Apache-2.0
// As much of Foundation and Metal as emitted host text calls (tests/metal_stub declares it), on a CPU, over the
// Objective-C runtime of GCC: buffers whose pages a kernel can touch only where the encoder was told of them, and that
// nothing may touch once they are released; work that runs when its command buffer is committed. Kernels are run by
// whoever loads this (framework.h).
#import <Metal/Metal.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "framework.h"

extern "C" id class_createInstance(Class type, size_t extra);
extern "C" id object_dispose(id object);

namespace {

std::string failing, happened;
bool fails(const char* what) {
  if (failing != what) return false;
  failing.clear();
  return true;
}
void note(const std::string& line) { happened += line + "\n"; }

struct Region {
  char* address = nullptr;
  size_t bytes = 0, mapped = 0;
};
std::map<char*, Region> regions;
bool dispatching = false;

size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// A kernel touched what Metal was not told of, or what is no longer there.
void touched(int, siginfo_t* info, void*) {
  const char* const where = dispatching ? "a kernel touches memory that is in no buffer of its encoder\n"
                                        : "the host touches memory that is not there\n";
  (void)!write(2, where, strlen(where));
  (void)info;
  _exit(99);
}

}  // namespace

// ---- blocks: as Clang lays them out; copies live for ever ----
extern "C" {
void* _NSConcreteStackBlock[32];
void* _NSConcreteGlobalBlock[32];
void _Block_object_assign(void* to, const void* object, const int) { memcpy(to, &object, sizeof object); }
void _Block_object_dispose(const void*, const int) {}
}
namespace {
struct BlockDescriptor {
  unsigned long reserved, size;
  void (*copy)(void*, const void*);
};
struct BlockLayout {
  void* isa;
  int flags, reserved;
  void (*invoke)(void*, ...);
  BlockDescriptor* descriptor;
};
void* copied(const void* block) {
  const auto* from = static_cast<const BlockLayout*>(block);
  auto* to = static_cast<BlockLayout*>(malloc(from->descriptor->size));
  memcpy(static_cast<void*>(to), block, from->descriptor->size);
  if ((from->flags & (1 << 25)) != 0) from->descriptor->copy(to, block);
  return to;
}
}  // namespace

// ---- Foundation ----
@implementation NSObject
+ (instancetype)alloc {
  return class_createInstance(self, 0);
}
+ (void)initialize {
}
- (instancetype)init {
  return self;
}
@end

// What the compiler puts around a pool where it counts no references itself.
@interface NSAutoreleasePool : NSObject
- (void)drain;
@end
@implementation NSAutoreleasePool
- (void)drain {
}
@end

@implementation NSString
+ (instancetype)stringWithUTF8String:(const char*)text {
  NSString* const made = [NSString alloc];
  made->held = new std::string(text);
  return made;
}
+ (instancetype)stringWithContentsOfFile:(NSString*)path encoding:(NSUInteger)encoding error:(NSError**)error {
  (void)encoding;
  FILE* const file = fopen([path UTF8String], "rb");
  if (file == nullptr) {
    if (error != nullptr) *error = [NSError errorWithText:"no such file" code:260];
    return nil;
  }
  std::string text;
  char part[4096];
  for (size_t n = 0; (n = fread(part, 1, sizeof part, file)) != 0;) text.append(part, n);
  fclose(file);
  return [NSString stringWithUTF8String:text.c_str()];
}
- (const char*)UTF8String {
  return static_cast<std::string*>(held)->c_str();
}
@end

namespace {
struct ErrorFacts {
  std::string text;
  NSInteger code;
};
}  // namespace
@implementation NSError
+ (NSError*)errorWithText:(const char*)text code:(NSInteger)code {
  NSError* const made = [NSError alloc];
  made->held = new ErrorFacts{text, code};
  return made;
}
- (NSString*)localizedDescription {
  return [NSString stringWithUTF8String:static_cast<ErrorFacts*>(held)->text.c_str()];
}
- (NSInteger)code {
  return static_cast<ErrorFacts*>(held)->code;
}
@end

@implementation NSURL
+ (NSURL*)fileURLWithPath:(NSString*)path {
  NSURL* const made = [NSURL alloc];
  made->held = new std::string([path UTF8String]);
  return made;
}
@end

@implementation NSFileManager
+ (NSFileManager*)defaultManager {
  static NSFileManager* const only = [[NSFileManager alloc] init];
  return only;
}
- (BOOL)fileExistsAtPath:(NSString*)path {
  return access([path UTF8String], F_OK) == 0 ? YES : NO;
}
@end

@implementation NSMutableDictionary
- (instancetype)init {
  held = new std::map<std::string, id>;
  return self;
}
- (id)objectForKey:(id)key {
  const auto& objects = *static_cast<std::map<std::string, id>*>(held);
  const auto found = objects.find([static_cast<NSString*>(key) UTF8String]);
  return found == objects.end() ? nil : found->second;
}
- (void)setObject:(id)object forKey:(id)key {
  (*static_cast<std::map<std::string, id>*>(held))[[static_cast<NSString*>(key) UTF8String]] = object;
}
@end

// ---- Metal ----
@interface CpuBuffer : NSObject <MTLBuffer> {
 @public
  Region region_;
  bool shared_;
}
@end
@implementation CpuBuffer
- (NSUInteger)length {
  return region_.bytes;
}
- (unsigned long long)gpuAddress {
  return reinterpret_cast<unsigned long long>(region_.address);
}
- (void*)contents {
  return shared_ ? region_.address : nullptr;
}
@end

namespace {

CpuBuffer* make_buffer(size_t bytes, bool shared) {
  const size_t mapped = whole_pages(bytes == 0 ? 1 : bytes) + 4096;  // the last page is never there
  void* const at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nil;
  memset(at, 0x7f, mapped - 4096);
  mprotect(static_cast<char*>(at) + mapped - 4096, 4096, PROT_NONE);
  CpuBuffer* const made = [CpuBuffer alloc];
  made->region_ = {static_cast<char*>(at), bytes, mapped};
  made->shared_ = shared;
  regions[made->region_.address] = made->region_;
  return made;
}

}  // namespace

@implementation MTLFunctionConstantValues
- (instancetype)init {
  held = new std::map<NSUInteger, bool>;
  return self;
}
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index {
  if (type != MTLDataTypeBool) abort();
  (*static_cast<std::map<NSUInteger, bool>*>(held))[index] = *static_cast<const bool*>(value);
}
@end

@implementation MTLCompileOptions  // held: null where math is fast, as it is unless told otherwise
- (void)setFastMathEnabled:(BOOL)enabled {
  held = enabled == YES ? nullptr : self;
}
@end

@interface CpuFunction : NSObject <MTLFunction> {
 @public
  void* library_;
  void* code_;
  std::map<NSUInteger, bool>* constants_;
  std::string* name_;
}
@end
@implementation CpuFunction
@end

@interface CpuPipeline : NSObject <MTLComputePipelineState> {
 @public
  CpuFunction* function_;
}
@end
@implementation CpuPipeline
- (NSUInteger)threadExecutionWidth {
  return fails("width") ? 16 : 32;
}
- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return fails("threads") ? 16 : 1024;
}
- (NSUInteger)staticThreadgroupMemoryLength {
  return fails("memory") ? 32768 : 0;
}
@end

@interface CpuLibrary : NSObject <MTLLibrary> {
 @public
  void* library_;
}
@end
@implementation CpuLibrary
- (id<MTLFunction>)newFunctionWithName:(NSString*)name
                        constantValues:(MTLFunctionConstantValues*)values
                                 error:(NSError**)error {
  void* const code = fails("function") ? nullptr : codetta_metal_function(library_, [name UTF8String]);
  if (code == nullptr) {
    *error = [NSError errorWithText:"no such function" code:3];
    return nil;
  }
  CpuFunction* const made = [CpuFunction alloc];
  made->library_ = library_, made->code_ = code, made->constants_ = static_cast<std::map<NSUInteger, bool>*>(values->held);
  made->name_ = new std::string([name UTF8String]);
  return made;
}
@end

// What an encoder takes down, to be run when it is committed.
struct Dispatch {
  CpuPipeline* pipeline;
  std::string parameters;
  unsigned threadgroup_bytes;
  MTLSize groups, threads;
};

@interface CpuEncoder : NSObject <MTLComputeCommandEncoder> {
 @public
  std::vector<Dispatch>* work_;
  std::vector<char*>* used_;
  CpuPipeline* pipeline_;
  std::string* parameters_;
  unsigned threadgroup_bytes_;
  bool dirty_, ended_;
}
@end
@implementation CpuEncoder
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  pipeline_ = static_cast<CpuPipeline*>(state);
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  if (index != 0 || length > 4096) note("parameters that Metal does not take");
  parameters_->assign(static_cast<const char*>(bytes), length);
  parameters_->resize(4096);
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  if (index != 0 || length % 16 != 0) note("threadgroup memory of no whole 16 bytes");
  threadgroup_bytes_ = static_cast<unsigned>(length);
}
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads {
  if (groups.width == 0 || groups.height == 0 || groups.depth == 0) note("a grid of nothing");
  if (dirty_) note("a dispatch without a barrier behind the one before it");
  work_->push_back({pipeline_, *parameters_, threadgroup_bytes_, groups, threads});
  dirty_ = true;
}
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  if (scope == MTLBarrierScopeBuffers) dirty_ = false;
}
- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  (void)usage;
  if (!work_->empty()) note("a buffer is named behind the first dispatch");
  used_->push_back(static_cast<CpuBuffer*>(resource)->region_.address);
}
- (void)endEncoding {
  ended_ = true;
}
@end

@interface CpuCommands : NSObject <MTLCommandBuffer> {
 @public
  std::vector<CpuEncoder*>* encoders_;
  std::vector<void*>* handlers_;
  MTLCommandBufferStatus status_;
  NSError* error_;
}
@end
@implementation CpuCommands
- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  if (fails("encoder")) return nil;
  CpuEncoder* const made = [CpuEncoder alloc];
  made->work_ = new std::vector<Dispatch>;
  made->used_ = new std::vector<char*>;
  made->parameters_ = new std::string;
  encoders_->push_back(made);
  return made;
}
- (void)addCompletedHandler:(void (^)(id<MTLCommandBuffer>))block {
  handlers_->push_back(copied((__bridge const void*)block));
}
- (void)commit {
  status_ = 4;  // completed
  for (CpuEncoder* const encoder : *encoders_) {
    if (!encoder->ended_) note("a command buffer is committed while it is encoded");
    for (const auto& [address, region] : regions) {
      bool told = false;
      for (char* const used : *encoder->used_) told = told || used == address;
      if (!told) mprotect(region.address, region.mapped, PROT_NONE);
    }
    dispatching = true;
    for (const Dispatch& work : *encoder->work_) {
      CpuFunction* const function = work.pipeline->function_;
      for (const auto& [index, value] : *function->constants_)
        (void)codetta_metal_constant(function->library_, index, value);
      const unsigned groups[3] = {static_cast<unsigned>(work.groups.width), static_cast<unsigned>(work.groups.height),
                                  static_cast<unsigned>(work.groups.depth)};
      const char* const wrong =
          codetta_metal_dispatch(function->code_, work.parameters.data(), work.threadgroup_bytes, groups,
                                 static_cast<unsigned>(work.threads.width));
      note("ran " + *function->name_);
      if (wrong == nullptr) continue;
      status_ = MTLCommandBufferStatusError;
      error_ = [NSError errorWithText:wrong code:1];
      break;
    }
    dispatching = false;
    for (const auto& [address, region] : regions) mprotect(region.address, region.mapped - 4096, PROT_READ | PROT_WRITE);
  }
  if (fails("commands")) {
    status_ = MTLCommandBufferStatusError;
    error_ = [NSError errorWithText:"Caused GPU Hang Error" code:3];
  }
  for (void* const handler : *handlers_) ((__bridge void (^)(id<MTLCommandBuffer>))handler)(self);
}
- (void)waitUntilCompleted {
}
- (MTLCommandBufferStatus)status {
  return status_;
}
- (NSError*)error {
  return error_;
}
@end

@interface CpuQueue : NSObject <MTLCommandQueue>
@end
@implementation CpuQueue
- (id<MTLCommandBuffer>)commandBuffer {
  CpuCommands* const made = [CpuCommands alloc];
  made->encoders_ = new std::vector<CpuEncoder*>;
  made->handlers_ = new std::vector<void*>;
  return made;
}
@end

@interface CpuDevice : NSObject <MTLDevice>
@end
@implementation CpuDevice
- (NSString*)name {
  return [NSString stringWithUTF8String:"a processor"];
}
- (BOOL)supportsFamily:(MTLGPUFamily)family {
  (void)family;
  return fails("family") ? NO : YES;
}
- (NSUInteger)maxThreadgroupMemoryLength {
  return 32768;
}
- (id<MTLCommandQueue>)newCommandQueue {
  return fails("queue") ? nil : [[CpuQueue alloc] init];
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  if (fails("buffer")) return nil;
  return make_buffer(length, options != MTLResourceStorageModePrivate);
}
- (id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError**)error {
  if (fails("library")) {
    *error = [NSError errorWithText:"Invalid library file" code:1];
    return nil;
  }
  NSError* unread = nil;
  NSString* const text = [NSString stringWithContentsOfFile:[NSString stringWithUTF8String:static_cast<std::string*>(url->held)->c_str()]
                                                   encoding:NSUTF8StringEncoding
                                                      error:&unread];
  return [self newLibraryWithSource:text options:nil error:error];
}
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error {
  if (options != nil && options->held == nullptr) note("a text is compiled with fast math");
  char why[2048] = "refused";
  void* const library = fails("library") ? nullptr : codetta_metal_compile([source UTF8String], why, sizeof why);
  if (library == nullptr) {
    *error = [NSError errorWithText:why code:3];
    return nil;
  }
  note("compiled");
  CpuLibrary* const made = [CpuLibrary alloc];
  made->library_ = library;
  return made;
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error {
  if (fails("pipeline")) {
    *error = [NSError errorWithText:"Compiler encountered an internal error" code:2];
    return nil;
  }
  CpuPipeline* const made = [CpuPipeline alloc];
  made->function_ = static_cast<CpuFunction*>(function);
  return made;
}
@end

extern "C" id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  static CpuDevice* const only = [[CpuDevice alloc] init];
  return fails("device") ? nil : only;
}

namespace {

void* control_buffer(size_t bytes) { return (__bridge void*)make_buffer(bytes, true); }
void* control_contents(void* buffer) { return ((__bridge CpuBuffer*)buffer)->region_.address; }
void control_release(void* buffer) {
  CpuBuffer* const object = (__bridge CpuBuffer*)buffer;
  munmap(object->region_.address, object->region_.mapped);
  regions.erase(object->region_.address);
  object_dispose(object);
}
void* control_commands() { return (__bridge void*)[[[CpuQueue alloc] init] commandBuffer]; }
void control_finish(void* commands) {
  [(__bridge CpuCommands*)commands commit];
  [(__bridge CpuCommands*)commands waitUntilCompleted];
}
void control_fail(const char* what) { failing = what == nullptr ? "" : what; }
const char* control_log() {
  static std::string told;
  told = happened;
  happened.clear();
  return told.c_str();
}

}  // namespace

extern "C" const MetalControl* codetta_metal_control(void) {
  static const MetalControl control = {control_buffer, control_contents, control_release, control_commands,
                                       control_finish, control_fail,     control_log};
  struct sigaction action {};
  action.sa_sigaction = touched;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  return &control;
}
