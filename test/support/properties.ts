/**
 * Loaded before every test file (`--import`): replaces fast-check with a copy that has the planned seed and number of runs. Files
 * without a property pay nothing. The package's own name is this source, as under `--conditions=concord-source`.
 */
import { registerHooks } from 'node:module'
import { planProperties } from './property-plan.ts'

const planned = new URL('./planned-fast-check.ts', import.meta.url).href

const plan = planProperties(process.env)
if (!plan.ok) throw new Error(plan.says)
registerHooks({
  resolve(specifier, context, nextResolve) {
    if (specifier === 'fast-check' && context.parentURL !== planned) return { url: planned, shortCircuit: true }
    if (!specifier.startsWith('@concordhq/concord')) return nextResolve(specifier, context)
    return nextResolve(specifier, { ...context, conditions: [...context.conditions, 'concord-source'] })
  },
})
