/** Types and drafts: the built-in list, safe defaults, and refused drafts. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { accepted } from '#test/tenant'
import {
  builtInArtifactTypes,
  contentClasses,
  defineArtifactType,
  openArtifactTypes,
  sharingRules,
} from './artifact-type.ts'
import { parseRange } from './blob-store.ts'
import { checkDraft, checkSuccession } from './check-draft.ts'
import { decideSharing, mayRead } from './artifact.ts'

describe('artifact types', () => {
  test('[ART-02] [ART-08] the fifteen types, each once', () => {
    assert.deepEqual(
      builtInArtifactTypes.map(({ name }) => name),
      [
        'report',
        'draft_report',
        'booking_draft',
        'reservation_confirmation',
        'approval_packet',
        'query_result',
        'csv_export',
        'dashboard_draft',
        'sync_snapshot',
        'agent_answer',
        'evaluation_result',
        'research_notes',
        'analysis',
        'review',
        'final_report',
      ],
    )
    assert.ok(openArtifactTypes(builtInArtifactTypes).ok)
  })

  test('[ART-10] a type declares seven things, with strict defaults', () => {
    const { schema: _schema, ...type } = defineArtifactType({ name: 'memo', description: 'A memo.' })
    assert.deepEqual(type, {
      name: 'memo',
      description: 'A memo.',
      version: '1',
      visibility: 'workspace',
      data_class: 'internal',
      lineage: { sources_min: 0, kinds: ['artifact', 'effect', 'memory', 'dataset'] },
      retention_days: null,
      external_sharing: 'require_approval',
      compatible_with: [],
      rendering: { view: 'text' },
    })
  })

  test('an invalid type is refused with its path; a misspelt name gets the nearest one; a later definition replaces', () => {
    const memo = { name: 'memo', description: 'A memo.' }
    for (const wrong of [
      { ...memo, name: 'Memo Type' },
      { ...memo, retention_days: 0 },
      { ...memo, visibility: 'public' as never },
      { ...memo, media_types: ['text'] },
      { ...memo, external_sharing: 'perhaps' as never },
    ]) {
      const opened = openArtifactTypes([defineArtifactType(wrong)])
      assert.equal(opened.ok ? 'opened' : opened.code, 'artifacts.type.invalid')
    }
    const own = defineArtifactType({ name: 'report', description: 'Ours.', retention_days: 7 })
    const types = accepted(openArtifactTypes([...builtInArtifactTypes, own]))
    assert.equal(accepted(types.get('report')).retention_days, 7)
    assert.equal(types.all.length, builtInArtifactTypes.length)
    const missed = types.get('reprot')
    assert.match(missed.ok ? '' : (missed.hint ?? ''), /report/)
  })

  test('[ART-10] a version replaces its own version and those it lists, and no other type', () => {
    const type = defineArtifactType({ name: 'memo', description: 'A memo.', version: '3', compatible_with: ['2'] })
    const before = (artifact_type: string, type_version: string) =>
      checkSuccession(type, { artifact_type, metadata: { type_version } }).ok
    assert.deepEqual(
      [before('memo', '3'), before('memo', '2'), before('memo', '1'), before('note', '3')],
      [true, true, false, false],
    )
  })

  test('a draft never lowers the data class of its type', () => {
    const type = defineArtifactType({ name: 'memo', description: 'A memo.', data_class: 'confidential' })
    const classOf = (data_class: (typeof contentClasses)[number]) =>
      accepted(checkDraft(type, { type: 'memo', content: { text: '' }, data_class })).dataClass
    assert.deepEqual(contentClasses.map(classOf), [
      'confidential',
      'confidential',
      'confidential',
      'pii',
      'payment',
      'secret',
    ])
  })

  test('the same JSON in another order is the same content', () => {
    const type = defineArtifactType({ name: 'memo', description: 'A memo.' })
    const bytes = (json: { a: number; b: number }) =>
      accepted(checkDraft(type, { type: 'memo', content: { json } })).content
    assert.deepEqual(bytes({ a: 1, b: 2 }), bytes({ b: 2, a: 1 }))
  })
})

describe('visibility and sharing', () => {
  test('[ART-06] inside the organisation all is allowed; outside the stricter of class and type decides', () => {
    const table = contentClasses.map((dataClass) => [
      dataClass,
      ...sharingRules.map((external_sharing) => decideSharing({ external_sharing }, dataClass, true)),
    ])
    assert.deepEqual(table, [
      ['public', 'allow', 'require_approval', 'deny'],
      ['internal', 'require_approval', 'require_approval', 'deny'],
      ['confidential', 'require_approval', 'require_approval', 'deny'],
      ['pii', 'deny', 'deny', 'deny'],
      ['payment', 'deny', 'deny', 'deny'],
      ['secret', 'deny', 'deny', 'deny'],
    ])
    for (const dataClass of contentClasses)
      for (const external_sharing of sharingRules)
        assert.equal(decideSharing({ external_sharing }, dataClass, false), 'allow')
  })

  test('private is for its creator and administrators', () => {
    const seen = (visibility: 'private' | 'workspace', userId: string, role: 'reader' | 'writer' | 'admin') =>
      mayRead({ visibility, created_by: 'user:ada' }, { userId, role })
    assert.deepEqual(
      [seen('workspace', 'bob', 'reader'), seen('private', 'ada', 'reader'), seen('private', 'boss', 'admin')],
      [true, true, true],
    )
    assert.equal(seen('private', 'bob', 'writer'), false)
  })
})

describe('ranges', () => {
  test('parses one byte range as HTTP defines it', () => {
    const of = (header: string | undefined, size = 100) => {
      const range = parseRange(header, size)
      if (!range.ok) return range.code
      return range.value ? `${range.value.start}-${range.value.end}` : 'whole'
    }
    assert.deepEqual(
      ['bytes=0-9', 'bytes=90-', 'bytes=-5', 'bytes=0-999', 'bytes=-999'].map((header) => of(header)),
      ['0-9', '90-99', '95-99', '0-99', '0-99'],
    )
    for (const whole of [undefined, '', 'bytes=0-1,5-6', 'lines=1-2', 'bytes=9-3', 'bytes=-', 'bytes=a-b'])
      assert.equal(of(whole), 'whole', whole)
    for (const none of ['bytes=100-', 'bytes=200-300', 'bytes=-0'])
      assert.equal(of(none), 'artifacts.content.range', none)
    assert.equal(of('bytes=0-', 0), 'artifacts.content.range')
  })

  test('a range is always inside the content', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), fc.nat(), fc.nat(1_000), (text, from, to, size) => {
        for (const header of [text, `bytes=${from}-${to}`, `bytes=-${to}`, `bytes=${from}-`]) {
          const range = parseRange(header, size)
          if (range.ok && range.value) {
            const { start, end } = range.value
            assert.ok(0 <= start && start <= end && end < size)
          }
        }
      }),
    )
  })
})
