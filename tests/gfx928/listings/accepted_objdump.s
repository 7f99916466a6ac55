; The accepted stage as llvm-objdump -d prints it, with the notes of llvm-readelf behind it.

accepted.co:	file format elf64-amdgpu

Disassembly of section .text:

0000000000001900 <_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii>:
	s_load_dwordx4 s[0:3], s[4:5], 0x0                          // 000000001900: BF8A0000
	v_lshlrev_b32_e32 v20, 4, v0                                // 000000001908: BF8A0000
	s_mov_b32 s20, 64                                           // 000000001910: BF8A0000
	s_waitcnt lgkmcnt(0)                                        // 000000001918: BF8A0000
	global_load_dwordx4 v[40:43], v[2:3], off                   // 000000001920: BF8A0000
	global_load_dwordx4 v[44:47], v[4:5], off                   // 000000001928: BF8A0000
	s_waitcnt vmcnt(0)                                          // 000000001930: BF8A0000
	ds_write_b128 v20, v[40:43]                                 // 000000001938: BF8A0000
	ds_write_b128 v20, v[44:47] offset:4096                     // 000000001940: BF8A0000
	s_waitcnt lgkmcnt(0)                                        // 000000001948: BF8A0000
	s_barrier                                                   // 000000001950: BF8A0000
	global_load_dwordx4 v[40:43], v[2:3], off                   // 000000001958: BF8A0000
	global_load_dwordx4 v[44:47], v[4:5], off                   // 000000001960: BF8A0000
	ds_read_b64 v[60:61], v21                                   // 000000001968: BF8A0000
	ds_read_b64 v[62:63], v21 offset:1024                       // 000000001970: BF8A0000
	ds_read_b64 v[64:65], v22                                   // 000000001978: BF8A0000
	ds_read_b64 v[66:67], v22 offset:1024                       // 000000001980: BF8A0000
	ds_read_b64 v[68:69], v21 offset:32                         // 000000001988: BF8A0000
	ds_read_b64 v[70:71], v21 offset:1056                       // 000000001990: BF8A0000
	ds_read_b64 v[72:73], v22 offset:32                         // 000000001998: BF8A0000
	ds_read_b64 v[74:75], v22 offset:1056                       // 0000000019A0: BF8A0000
	s_waitcnt lgkmcnt(0)                                        // 0000000019A8: BF8A0000
	v_mmac_i32_16x16x32_i8 v[80:83], v[60:61], v[64:65], v[80:83]// 0000000019B0: BF8A0000
	v_mmac_i32_16x16x32_i8 v[84:87], v[60:61], v[66:67], v[84:87]// 0000000019B8: BF8A0000
	v_mmac_i32_16x16x32_i8 v[88:91], v[62:63], v[64:65], v[88:91]// 0000000019C0: BF8A0000
	v_mmac_i32_16x16x32_i8 v[92:95], v[62:63], v[66:67], v[92:95]// 0000000019C8: BF8A0000
	v_mmac_i32_16x16x32_i8 v[80:83], v[68:69], v[72:73], v[80:83]// 0000000019D0: BF8A0000
	v_mmac_i32_16x16x32_i8 v[84:87], v[68:69], v[74:75], v[84:87]// 0000000019D8: BF8A0000
	v_mmac_i32_16x16x32_i8 v[88:91], v[70:71], v[72:73], v[88:91]// 0000000019E0: BF8A0000
	v_mmac_i32_16x16x32_i8 v[92:95], v[70:71], v[74:75], v[92:95]// 0000000019E8: BF8A0000
	s_waitcnt vmcnt(0)                                          // 0000000019F0: BF8A0000
	v_xor_b32_e32 v20, 0x2000, v20                              // 0000000019F8: BF8A0000
	ds_write_b128 v20, v[40:43]                                 // 000000001A00: BF8A0000
	ds_write_b128 v20, v[44:47] offset:4096                     // 000000001A08: BF8A0000
	s_waitcnt lgkmcnt(0)                                        // 000000001A10: BF8A0000
	s_barrier                                                   // 000000001A18: BF8A0000
	v_xor_b32_e32 v21, 0x2000, v21                              // 000000001A20: BF8A0000
	v_xor_b32_e32 v22, 0x2000, v22                              // 000000001A28: BF8A0000
	v_add_co_u32_e32 v2, vcc, 64, v2                            // 000000001A30: BF8A0000
	v_addc_co_u32_e32 v3, vcc, 0, v3, vcc                       // 000000001A38: BF8A0000
	s_sub_i32 s20, s20, 1                                       // 000000001A40: BF8A0000
	s_cmp_lg_u32 s20, 0                                         // 000000001A48: BF8A0000
	s_cbranch_scc1 65488                                        // 000000001A50: BF8A0000 <_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii+0x58>
	ds_read_b64 v[60:61], v21                                   // 000000001A58: BF8A0000
	s_waitcnt lgkmcnt(0)                                        // 000000001A60: BF8A0000
	v_mmac_i32_16x16x32_i8 v[80:83], v[60:61], v[64:65], v[80:83]// 000000001A68: BF8A0000
	global_store_dwordx2 v[6:7], v[80:81], off                  // 000000001A70: BF8A0000
	s_endpgm                                                    // 000000001A78: BF8A0000

---
amdhsa.kernels:
  - .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 16384
    .kernarg_segment_align: 8
    .kernarg_segment_size: 52
    .language:       OpenCL C
    .max_flat_workgroup_size: 256
    .name:           _Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii
    .private_segment_fixed_size: 0
    .sgpr_count:     43
    .sgpr_spill_count: 0
    .symbol:         _Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii.kd
    .vgpr_count:     63
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx928
amdhsa.version:
  - 1
  - 2
...
