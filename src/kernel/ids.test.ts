import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decodeId, encodeId, type IdKind, idPrefixes, isTextId, textId } from './ids.ts'

const kinds = Object.keys(idPrefixes) as IdKind[]
const uuid = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f'
const hex = '017f22e279b07cc398c4dc0c0c07398f'
const codeOf = (decision: ReturnType<typeof decodeId>) => (decision.ok ? 'accepted' : decision.code)

describe('ids', () => {
  test('[SUP-12] a UUID goes out behind its prefix and comes back as the same UUID', () => {
    assert.equal(encodeId('command', uuid), `cmd_${hex}`)
    assert.equal(encodeId('approval', uuid), `appr_${hex}`)
    fc.assert(
      fc.property(fc.constantFrom(...kinds), fc.uuid(), (kind, id) => {
        const text = encodeId(kind, id)
        assert.match(text, /^[a-z]+_[0-9a-f]{32}$/)
        assert.deepEqual(decodeId(kind, text), { ok: true, value: id })
        assert.deepEqual(decodeId(kind, id), { ok: true, value: id })
      }),
    )
  })

  test('[SUP-12] the prefix of one kind is refused for every other kind', () => {
    for (const kind of kinds) {
      for (const other of kinds) {
        assert.equal(codeOf(decodeId(kind, encodeId(other, uuid))), kind === other ? 'accepted' : 'id_format')
      }
    }
  })

  for (const text of [
    '',
    'cmd_',
    'cmd_123',
    `{${uuid}}`,
    uuid.toUpperCase(),
    `cmd_${hex.toUpperCase()}`,
    `CMD_${hex}`,
    `cmd_${uuid}`,
    `cmd-${hex}`,
    `cmd_cmd_${hex}`,
    `cmd_${hex}0`,
    hex,
    ` ${uuid}`,
    `${uuid}\n`,
    `urn:uuid:${uuid}`,
    "cmd_'; drop table commands; --",
    'x'.repeat(1_000_000),
  ]) {
    test(`refuses ${JSON.stringify(text.slice(0, 50))}`, () => {
      const decision = decodeId('command', text)
      assert.equal(codeOf(decision), 'id_format')
      assert.ok(!decision.ok && decision.reason.length < 140)
    })
  }

  test('prefixes are pinned: they stay in logs for ever', () => {
    const pinned = [
      'agent_invocation call',
      'agent_message msg',
      'agent_run agent',
      'api_key key',
      'approval appr',
      'artifact art',
      'colony_mission col',
      'command cmd',
      'command_schedule csched',
      'connector_invocation inv',
      'dag_version dag',
      'dataset ds',
      'dataset_version dsver',
      'effect eff',
      'event evt',
      'flow_job fjob',
      'flow_task ftask',
      'job job',
      'job_group jgrp',
      'job_run run',
      'job_template tmpl',
      'memory mem',
      'memory_candidate memc',
      'memory_consent memcon',
      'memory_erasure memerase',
      'memory_hold memhold',
      'mission mission',
      'mission_task task',
      'org org',
      'org_role role',
      'registry_artifact regart',
      'registry_binding regbind',
      'registry_entity reg',
      'registry_evaluation regeval',
      'registry_relationship regrel',
      'registry_version regver',
      'reservation resv',
      'schedule sched',
      'swarm_run swarm',
      'user user',
      'workspace ws',
    ]
    // A newer prefix is pinned where people meet it: in openapi.json.
    const now = kinds.map((kind) => `${kind} ${idPrefixes[kind]}`)
    assert.deepEqual(
      pinned.filter((line) => !now.includes(line)),
      [],
    )
    assert.equal(new Set(Object.values(idPrefixes)).size, kinds.length)
  })

  test('encoding what is not a UUID is internal error', () => {
    assert.throws(() => encodeId('command', 'cmd_123'), { name: 'KernelFault', code: 'id.not_a_uuid' })
  })

  test('trace and request ids are version 4 hex behind their prefix and stay text', () => {
    const random = new Uint8Array(16).fill(255)
    assert.equal(textId('trace', random), 'trace_ffffffffffff4fffbfffffffffffffff')
    assert.equal(textId('request', random), 'req_ffffffffffff4fffbfffffffffffffff')
    assert.ok(isTextId('trace', textId('trace', random)))
    assert.ok(isTextId('request', 'req_from-a-proxy_7'))
    for (const text of ['trace_', 'req_1', 'trace_a b', 'trace_a\n', `trace_${'a'.repeat(65)}`, 'trace_é']) {
      assert.ok(!isTextId('trace', text), text)
    }
  })
})
