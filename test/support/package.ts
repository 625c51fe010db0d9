/** What the package exports. */
export * as concord from '../../src/index.ts'
export * as kernel from '../../src/kernel/public.ts'
