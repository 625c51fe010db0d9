/**
 * Loaded before every test file (`--import`): replaces fast-check with a copy that has the planned seed and number of runs. Files
 * without a property pay nothing.
 */
import { registerHooks } from 'node:module'
import { planProperties } from './property-plan.ts'

const planned = new URL('./planned-fast-check.ts', import.meta.url).href

const plan = planProperties(process.env)
if (!plan.ok) throw new Error(plan.says)
registerHooks({
  resolve: (specifier, context, nextResolve) =>
    specifier === 'fast-check' && context.parentURL !== planned
      ? { url: planned, shortCircuit: true }
      : nextResolve(specifier, context),
})
