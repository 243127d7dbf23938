// SPDX-License-Identifier: Apache-2.0
// Our declarations of what emitted host text uses of Metal's API: for checks of its syntax, and for
// tests/metal_host/framework.mm, which runs it.
#pragma once

#import <Foundation/Foundation.h>

typedef NSInteger MTLGPUFamily;
typedef NSUInteger MTLResourceOptions;
enum { MTLResourceStorageModeShared = 0, MTLResourceStorageModePrivate = 32 };
typedef NSUInteger MTLResourceUsage;
enum { MTLResourceUsageRead = 1, MTLResourceUsageWrite = 2 };
typedef NSUInteger MTLBarrierScope;
enum { MTLBarrierScopeBuffers = 1 };
typedef NSUInteger MTLCommandBufferStatus;
enum { MTLCommandBufferStatusError = 5 };
typedef NSUInteger MTLDataType;
enum { MTLDataTypeBool = 53 };
typedef struct {
  NSUInteger width, height, depth;
} MTLSize;
static inline MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
  MTLSize size = {width, height, depth};
  return size;
}

@protocol MTLResource <NSObject>
@end
@protocol MTLBuffer <MTLResource>
- (NSUInteger)length;
- (unsigned long long)gpuAddress;
- (void*)contents;  // NULL of private memory
@end
@protocol MTLFunction <NSObject>
@end
@protocol MTLComputePipelineState <NSObject>
- (NSUInteger)threadExecutionWidth;
- (NSUInteger)maxTotalThreadsPerThreadgroup;
- (NSUInteger)staticThreadgroupMemoryLength;
@end
@interface MTLFunctionConstantValues : NSObject
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index;
@end
@interface MTLCompileOptions : NSObject
- (void)setFastMathEnabled:(BOOL)enabled;
@end
@protocol MTLLibrary <NSObject>
- (id<MTLFunction>)newFunctionWithName:(NSString*)name
                        constantValues:(MTLFunctionConstantValues*)values
                                 error:(NSError**)error;
@end
@protocol MTLComputeCommandEncoder <NSObject>
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads;
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage;
- (void)endEncoding;
@end
@protocol MTLCommandBuffer <NSObject>
- (id<MTLComputeCommandEncoder>)computeCommandEncoder;
- (void)addCompletedHandler:(void (^)(id<MTLCommandBuffer>))block;
- (void)commit;
- (void)waitUntilCompleted;
- (MTLCommandBufferStatus)status;
- (NSError*)error;
@end
@protocol MTLCommandQueue <NSObject>
- (id<MTLCommandBuffer>)commandBuffer;
@end
@protocol MTLDevice <NSObject>
- (NSString*)name;
- (BOOL)supportsFamily:(MTLGPUFamily)family;
- (NSUInteger)maxThreadgroupMemoryLength;
- (id<MTLCommandQueue>)newCommandQueue;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError**)error;
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error;
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error;
@end
extern "C" id<MTLDevice> MTLCreateSystemDefaultDevice(void);
