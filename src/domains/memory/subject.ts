/** Whom a memory is about, as people write it: `user:user_0197…`, `customer:4711`, `team:finance`. Pure. */
import { decodeId, encodeId } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import type { Subject } from './memory-row.ts'

const KIND = /^[a-z][a-z0-9_]{0,49}$/
const ID_CHARS_MAX = 200

/** A user of this installation is kept by its UUID, however the id was written, so that one person is one subject. */
export function parseSubject(text: string): Decision<Subject> {
  const [kind = '', ...rest] = text.split(':')
  const id = rest.join(':').normalize('NFC')
  const isUsable = KIND.test(kind) && id !== '' && id.length <= ID_CHARS_MAX && id === id.trim() && showLine(id) === id
  // Behind this prefix stands what remains of an erased subject.
  if (!isUsable || id.startsWith('erased:')) {
    return refuse('memory.subject.invalid', `${quote(text)} does not say whom it is about`, {
      path: 'subject',
      hint: 'Write kind:id, such as user:user_0197… or customer:4711.',
    })
  }
  const user = kind === 'user' ? decodeId('user', id) : undefined
  return accept({ subject_type: kind, subject_id: user?.ok ? user.value : id })
}

export function showSubject({ subject_type, subject_id }: Subject): string {
  const isUser = subject_type === 'user' && decodeId('user', subject_id).ok
  return `${subject_type}:${isUser ? encodeId('user', subject_id) : subject_id}`
}
