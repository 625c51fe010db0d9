/** The approval types of an installation: the built-in ones and its own, by name; an unknown one is refused. */
import { KernelFault } from '#kernel/errors'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { ApprovalType } from './approval-type.ts'
import { builtInApprovalTypes } from './built-in-types.ts'

export type ApprovalTypes = {
  readonly names: readonly string[]
  find(name: string): Decision<ApprovalType>
}

/** An own type may take the place of a built-in one of the same name, never of another own one. */
export function openApprovalTypes(own: readonly ApprovalType[] = []): ApprovalTypes {
  const twice = own.find((type, index) => own.findIndex(({ name }) => name === type.name) !== index)
  if (twice) throw new KernelFault('approvals.type.duplicate', `there are two approval types ${twice.name}`)
  const types = new Map([...builtInApprovalTypes, ...own].map((type) => [type.name, type]))
  const names = [...types.keys()].toSorted()
  return {
    names,
    find(name) {
      const type = types.get(name)
      if (type) return accept(type)
      return refuse('approvals.type.unknown', `there is no approval type ${quote(name)}`, {
        path: 'approval_type',
        facts: { known: names },
        ...didYouMean(name, names),
      })
    },
  }
}
