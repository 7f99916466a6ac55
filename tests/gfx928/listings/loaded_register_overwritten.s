; A loaded register is overwritten before it is written to LDS.
	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx928"
	.globl	_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii
	.p2align	8
	.type	_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii,@function
_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii:                                    ; @_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii
; %bb.0:
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	v_lshlrev_b32_e32 v20, 4, v0
	s_mov_b32 s20, 64
	s_waitcnt lgkmcnt(0)
	global_load_dwordx4 v[40:43], v[2:3], off
	global_load_dwordx4 v[44:47], v[4:5], off
	s_waitcnt vmcnt(0)
	ds_write_b128 v20, v[40:43]
	ds_write_b128 v20, v[44:47] offset:4096
	s_waitcnt lgkmcnt(0)
	s_barrier
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	global_load_dwordx4 v[40:43], v[2:3], off
	global_load_dwordx4 v[44:47], v[4:5], off
	ds_read_b64 v[60:61], v21
	ds_read_b64 v[62:63], v21 offset:1024
	ds_read_b64 v[64:65], v22
	ds_read_b64 v[66:67], v22 offset:1024
	ds_read_b64 v[68:69], v21 offset:32
	ds_read_b64 v[70:71], v21 offset:1056
	ds_read_b64 v[72:73], v22 offset:32
	ds_read_b64 v[74:75], v22 offset:1056
	s_waitcnt lgkmcnt(0)
	v_mmac_i32_16x16x32_i8 v[80:83], v[60:61], v[64:65], v[80:83]
	v_mmac_i32_16x16x32_i8 v[84:87], v[60:61], v[66:67], v[84:87]
	v_mmac_i32_16x16x32_i8 v[88:91], v[62:63], v[64:65], v[88:91]
	v_mmac_i32_16x16x32_i8 v[92:95], v[62:63], v[66:67], v[92:95]
	v_mov_b32_e32 v45, v30
	v_mmac_i32_16x16x32_i8 v[80:83], v[68:69], v[72:73], v[80:83]
	v_mmac_i32_16x16x32_i8 v[84:87], v[68:69], v[74:75], v[84:87]
	v_mmac_i32_16x16x32_i8 v[88:91], v[70:71], v[72:73], v[88:91]
	v_mmac_i32_16x16x32_i8 v[92:95], v[70:71], v[74:75], v[92:95]
	;;#ASMSTART
	s_waitcnt vmcnt(0)
	;;#ASMEND
	v_xor_b32_e32 v20, 0x2000, v20
	ds_write_b128 v20, v[40:43]
	ds_write_b128 v20, v[44:47] offset:4096
	;;#ASMSTART
	s_waitcnt lgkmcnt(0)
	s_barrier
	;;#ASMEND
	v_xor_b32_e32 v21, 0x2000, v21
	v_xor_b32_e32 v22, 0x2000, v22
	v_add_co_u32_e32 v2, vcc, 64, v2
	v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
	s_sub_i32 s20, s20, 1
	s_cmp_lg_u32 s20, 0
	s_cbranch_scc1 .LBB0_1
; %bb.2:
	ds_read_b64 v[60:61], v21
	s_waitcnt lgkmcnt(0)
	v_mmac_i32_16x16x32_i8 v[80:83], v[60:61], v[64:65], v[80:83]
	global_store_dwordx2 v[6:7], v[80:81], off
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel _Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii
		.amdhsa_group_segment_fixed_size 16384
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_next_free_vgpr 63
		.amdhsa_next_free_sgpr 43
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii, .Lfunc_end0-_Z20w8a8_prefill_stage_dILi64ELb1EEvPKaS1_PKfS3_Ptiii
	.amdgpu_metadata
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
	.end_amdgpu_metadata
