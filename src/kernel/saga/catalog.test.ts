/** The five reasons for which a catalog does not start, each alone, and all of them together. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type SagaCatalog,
  type CatalogRuntime,
  type CompensationManifest,
  type SagaFinding,
  type OperationManifest,
  runtimeCapabilities,
  validateCatalog,
} from './catalog.ts'

const plain: CatalogRuntime = {
  name: 'plain',
  capabilities: runtimeCapabilities.filter((capability) => capability !== 'saga_compensation_native'),
}
const native: CatalogRuntime = { name: 'native', capabilities: runtimeCapabilities }

const bookHotel: OperationManifest = {
  operation: 'book_hotel',
  produces: ['hotel_booking.book_hotel'],
  requires_compensation: true,
  inverses: { 'hotel_booking.book_hotel': 'hotel_booking.cancel' },
}
const cancelReservation: CompensationManifest = {
  compensation: 'cancel_reservation',
  of: 'book_hotel',
  produces: ['hotel_booking.cancel'],
  counter_effects: true,
}

function findingsOf(catalog: SagaCatalog, runtime = plain, limits = {}): readonly SagaFinding[] {
  const decision = validateCatalog(catalog, runtime, limits)
  if (decision.ok) return []
  assert.equal(decision.code, 'saga.catalog.invalid')
  return decision.facts?.['findings'] as readonly SagaFinding[]
}

const rulesOf = (findings: readonly SagaFinding[]) => findings.map(({ rule, subject }) => `${rule} ${subject}`)

/** `start`, then what undoes it, then what undoes that, and so on. */
function aChain(length: number): SagaCatalog {
  return {
    operations: [{ operation: 'start', produces: ['e0'], requires_compensation: true }],
    compensations: Array.from({ length }, (_, at) => ({
      compensation: `undo${at + 1}`,
      of: at === 0 ? 'start' : `undo${at}`,
      produces: [`e${at + 1}`],
      counter_effects: false,
    })),
  }
}

test('[EFF-11] [EFF-12] an operation and the compensation it requires are accepted', () => {
  const catalog = { operations: [bookHotel], compensations: [cancelReservation] }
  assert.deepEqual(validateCatalog(catalog, plain), { ok: true, value: catalog })
  assert.deepEqual(findingsOf({ operations: [], compensations: [] }), [])
})

test('[EFF-12] a compensation that must be undoable itself declares the cascade', () => {
  const lonely = { ...cancelReservation, requires_compensation: true }
  assert.deepEqual(rulesOf(findingsOf({ operations: [bookHotel], compensations: [lonely] })), [
    'missing_compensation cancel_reservation',
  ])
  const cascade = {
    compensation: 'notify_guest',
    of: 'cancel_reservation',
    produces: ['mail.send'],
    counter_effects: false,
  }
  assert.deepEqual(findingsOf({ operations: [bookHotel], compensations: [lonely, cascade] }), [])
})

test('[EFF-13] a required compensation that is not declared', () => {
  assert.deepEqual(rulesOf(findingsOf({ operations: [bookHotel], compensations: [] })), [
    'missing_compensation book_hotel',
  ])
  const harmless = { ...bookHotel, requires_compensation: false }
  assert.deepEqual(findingsOf({ operations: [harmless], compensations: [] }), [])
})

test('[EFF-14] two compensations deep is fine, three are refused, and the limit can be set', () => {
  assert.deepEqual(findingsOf(aChain(2)), [])
  const [finding, ...others] = findingsOf(aChain(3))
  assert.deepEqual(others, [])
  assert.equal(finding?.rule, 'chain_too_deep')
  assert.match(finding?.message ?? '', /start → undo1 → undo2 → undo3/)
  assert.deepEqual(findingsOf(aChain(3), plain, { maxDepth: 3 }), [])
  assert.deepEqual(rulesOf(findingsOf(aChain(2), plain, { maxDepth: 1 })), ['chain_too_deep undo2'])
})

describe('cycles', () => {
  const undo = (compensation: string, of: string, produces: string[]): CompensationManifest => ({
    compensation,
    of,
    produces,
    counter_effects: false,
  })

  test('[EFF-15] two compensations that undo each other', () => {
    const findings = findingsOf({ operations: [], compensations: [undo('a', 'b', ['ea']), undo('b', 'a', ['eb'])] })
    assert.deepEqual(rulesOf(findings), ['cycle a'])
    assert.match(findings[0]?.message ?? '', /a → b → a/)
  })

  test('[EFF-15] a circle of four is a cycle and not a depth', () => {
    const compensations = [undo('a', 'd', []), undo('b', 'a', []), undo('c', 'b', []), undo('d', 'c', [])]
    assert.deepEqual(rulesOf(findingsOf({ operations: [], compensations })), ['cycle a'])
  })

  test('[EFF-15] a compensation of itself', () => {
    assert.deepEqual(rulesOf(findingsOf({ operations: [], compensations: [undo('a', 'a', [])] })), ['cycle a'])
  })

  test('[EFF-15] a compensation that does again what it undoes', () => {
    const operation = { operation: 'pay', produces: ['money.send'], requires_compensation: true }
    const findings = findingsOf({ operations: [operation], compensations: [undo('refund', 'pay', ['money.send'])] })
    assert.match(findings.find(({ rule }) => rule === 'cycle')?.message ?? '', /money\.send → refund → money\.send/)
  })

  test('[EFF-15] a cycle that runs through the effects of two operations', () => {
    const grant = { operation: 'grant', produces: ['access.grant'], requires_compensation: true }
    const revoke = { operation: 'revoke', produces: ['access.revoke'], requires_compensation: true }
    const compensations = [
      undo('undo_grant', 'grant', ['access.revoke']),
      undo('undo_revoke', 'revoke', ['access.grant']),
    ]
    const findings = findingsOf({ operations: [grant, revoke], compensations })
    assert.equal(findings.length, 1)
    assert.match(
      findings[0]?.message ?? '',
      /access\.grant → undo_grant → access\.revoke → undo_revoke → access\.grant/,
    )
  })

  test('[EFF-15] two knots give two findings', () => {
    const compensations = [undo('a', 'b', []), undo('b', 'a', []), undo('x', 'y', []), undo('y', 'x', [])]
    assert.deepEqual(rulesOf(findingsOf({ operations: [], compensations })), ['cycle a', 'cycle x'])
  })
})

test('[EFF-16] a compensation that claims to be an inverse and is not', () => {
  const refuses = (compensation: CompensationManifest, operation = bookHotel) =>
    rulesOf(findingsOf({ operations: [operation], compensations: [compensation] }))
  const wrong = ['false_inverse cancel_reservation']
  assert.deepEqual(refuses({ ...cancelReservation, produces: ['mail.send'] }), wrong)
  assert.deepEqual(refuses({ ...cancelReservation, produces: ['hotel_booking.cancel', 'mail.send'] }), wrong)
  assert.deepEqual(refuses({ ...cancelReservation, produces: [] }), wrong)
  const { inverses: _, ...untold } = bookHotel
  assert.deepEqual(refuses(cancelReservation, untold), wrong, 'an inverse is only one if it is declared')
  const unused = { ...bookHotel, inverses: { 'other.effect': 'hotel_booking.cancel' } }
  assert.deepEqual(refuses(cancelReservation, unused), wrong, 'the inverse of an effect that the parent does not have')
  assert.deepEqual(refuses({ ...cancelReservation, produces: ['mail.send'], counter_effects: false }), [])
})

test('[EFF-17] a need for native sagas on a runtime without them', () => {
  const payment: OperationManifest = { ...bookHotel, requires_capabilities: ['saga_compensation_native'] }
  const catalog = { operations: [payment], compensations: [cancelReservation] }
  const findings = findingsOf(catalog, plain)
  assert.deepEqual(rulesOf(findings), ['missing_capability book_hotel'])
  assert.match(findings[0]?.message ?? '', /saga_compensation_native.*"plain"/)
  assert.deepEqual(findingsOf(catalog, native), [])
})

test('a compensation of something that is not declared, and a name declared twice', () => {
  const findings = findingsOf({ operations: [bookHotel], compensations: [{ ...cancelReservation, of: 'book_hotl' }] })
  assert.deepEqual(rulesOf(findings), ['unknown_operation cancel_reservation', 'missing_compensation book_hotel'])
  assert.match(findings[0]?.message ?? '', /did you mean "book_hotel"\?/)
  const twice = findingsOf({ operations: [bookHotel, bookHotel], compensations: [cancelReservation] })
  assert.deepEqual(rulesOf(twice), ['duplicate_name book_hotel'])
})

test('everything that is wrong is reported at once', () => {
  const chain = aChain(3)
  const decision = validateCatalog(
    {
      operations: [
        ...chain.operations,
        { ...bookHotel, requires_capabilities: ['saga_compensation_native'] },
        { operation: 'send_invoice', produces: ['invoice.send'], requires_compensation: true },
      ],
      compensations: [
        ...chain.compensations,
        { ...cancelReservation, produces: ['mail.send'] },
        { compensation: 'p', of: 'q', produces: [], counter_effects: false },
        { compensation: 'q', of: 'p', produces: [], counter_effects: false },
      ],
    },
    plain,
  )
  assert.ok(!decision.ok)
  assert.deepEqual(rulesOf(decision.facts?.['findings'] as readonly SagaFinding[]), [
    'missing_compensation send_invoice',
    'chain_too_deep undo3',
    'cycle p',
    'false_inverse cancel_reservation',
    'missing_capability book_hotel',
  ])
  assert.match(decision.reason, /^The catalog has 5 errors: /)
})
