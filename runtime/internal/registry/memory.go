package registry

import (
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// InMemory is the registrations of a store in memory: a limit belongs to those who have used it first. The zero InMemory has
// none. It may be used by many goroutines at once.
type InMemory struct {
	known  Known
	mu     sync.Mutex
	stored map[string]runtime.Registration
}

// Refuse is [Known.Refuse].
func (m *InMemory) Refuse(calls []runtime.Call) Refusals {
	if m.known.Admits(calls) {
		return nil
	}
	return m.known.Refuse(calls, func(p *runtime.Policy) (error, bool) { return m.compare(p), true })
}

// compare returns the error of a limit, which it registers if it is not.
func (m *InMemory) compare(p *runtime.Policy) error {
	own := runtime.RegistrationOf("", p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.stored[p.Name]; ok {
		if err := was.Refuses(own); err != nil {
			return err
		}
		own = own.Complete(was)
	}
	if m.stored == nil {
		m.stored = map[string]runtime.Registration{}
	}
	m.stored[p.Name] = own
	return nil
}

// Forget forgets a limit that no longer exists.
func (m *InMemory) Forget(limit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stored, limit)
	m.known.Clear()
}
